"""``pixpnet members``: the networks of the family, with one sentence each."""

from __future__ import annotations

import json
import sys
from textwrap import wrap
from typing import TYPE_CHECKING

from pixpnet.wording import aligned

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

_WIDTH = 100


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `members` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Prints the family."""
    from pixpnet.family import DEFAULT, MEMBERS, member_named

    members = [member_named(name) for name in MEMBERS]
    if args.json:
        record = {
            "default": DEFAULT,
            "members": [
                {
                    "name": member.name,
                    "title": member.title,
                    "summary": member.summary,
                    "presets": list(member.presets),
                    "starts_from": list(member.starts_from),
                    "may_start_from": list(member.may_start_from),
                    "taught_by": list(member.taught_by),
                }
                for member in members
            ],
        }
        sys.stdout.write(json.dumps(record, indent=1) + "\n")
        return 0
    rows = [("name", "title", "what it is")]
    for member in members:
        first, *more = wrap(f"{member.summary[0].upper()}{member.summary[1:]}.", _WIDTH)
        rows += [(member.name, member.title, first), *(("", "", line) for line in more)]
        rows.append(("", "", f"presets: {', '.join(member.presets)}"))
        others = (("start", member.starts_from), ("teacher", member.taught_by))
        rows += [("", "", f"needs --{role} RUN, of {' or '.join(kinds)}") for role, kinds in others if kinds]
        if member.may_start_from:
            rows.append(("", "", f"may go on from --start RUN, of {' or '.join(member.may_start_from)}"))
        rows += [("", "", f"--to {name}: {conversion.summary}") for name, conversion in member.conversions.items()]
    sys.stdout.write("\n".join(aligned(rows)) + "\n\n")
    sys.stdout.write(
        f"Train one:    pixpnet train --member NAME --preset NAME --out RUN   ({DEFAULT} where none is named)\n"
        "Its options:  pixpnet train --member NAME --help\n"
    )
    return 0
