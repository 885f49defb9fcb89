"""`mrcjax spec`: the schema of the spec file, and examples."""

from typing import Annotated

from tyro.conf import arg

from mrcjax.cli.asking import print_json


def spec_command(
    *,
    schema: Annotated[bool, arg(help="Print the JSON Schema of the spec file.")] = False,
    example: Annotated[
        str | None,
        arg(
            metavar="KIND",
            help="Print a commented example, such as flat_rails.",
            help_behavior_hint="",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of the spec file, or an example of it to start from."""
    from mrcjax.spec import SpecError, example_kinds, json_schema
    from mrcjax.spec import example as example_text

    if schema == (example is not None):
        raise SpecError(
            "`mrcjax spec` prints one thing",
            remedy=f"give --schema, or --example with one of {', '.join(example_kinds())}",
        )
    if example is None:
        print_json(json_schema())
    else:
        print(example_text(example), end="")
