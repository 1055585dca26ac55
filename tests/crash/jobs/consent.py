"""A mail that a person must agree to."""

from typing import Any

from reference import answered

from perdure import tool
from perdure.testing.provider.request import post


@tool(side_effect_class="external", scope=["what"], approval="always")
def letter(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


def main(run: Any) -> str:
    return str(letter(run.inputs["url"], f"{run.inputs['tag']}:asked")["id"])
