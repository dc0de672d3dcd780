"""An explanation as a piece of HTML that holds everything it shows, for notebooks.

This part of the picture beside the part that it looks like, as on the page that `views` makes. Pointing at a term, or
reaching it by keyboard, lights up its region on the picture; a click opens what else is known of it, and keeps it lit.
There is no script in it. Names of classes and files come from others, so every one of them is escaped.
"""

from collections.abc import Iterator

from pixpnet.explanation.brief import SHOWN, parts_words
from pixpnet.explanation.certainty import calibration_words, doubt_text, probability_words
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.notebook_pictures import that_part, this_part, training_image, whole
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text, turn_text
from pixpnet.explanation.quality import matters_text, qualities_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.explanation.text import (
    also_text,
    choice_text,
    contrast_text,
    location,
    proof_result,
    proofs_text,
    rest_text,
    share_of,
    sight_text,
)
from pixpnet.markup import color, document, escaped, ink_on
from pixpnet.wording import called, percent, probability

_PICTURED = 10
"""Terms of a class with pictures; more are listed in words, so that the piece stays small."""
_LARGE, _SMALL = 112, 60
_STYLE = """
.pixpnet .answer{font-size:1.5em;font-weight:650;line-height:1.2;margin:0 0 .15em}
.pixpnet .note{border-left:4px solid var(--bad);padding-left:.75em;font-weight:600}
.pixpnet .why{display:flex;flex-wrap:wrap;gap:16px 24px;align-items:flex-start;margin:.75em 0}
.pixpnet .why>figure{margin:0;flex:none;position:sticky;top:8px}
.pixpnet figcaption{color:var(--muted);font-size:.85em;max-width:320px;margin-top:.4em;text-align:left}
.pixpnet .terms{flex:1 1 24em;min-width:0;display:grid;gap:2px 8px;
grid-template-columns:repeat(auto-fill,minmax(min(17em,100%),1fr))}
.pixpnet .terms>*{grid-column:1/-1;min-width:0}
.pixpnet .terms>.small:not([open]){grid-column:auto}
.pixpnet .term{border-radius:4px;margin:0}
.pixpnet .term>summary{display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start;padding:5px;list-style:none;
border-radius:4px}
.pixpnet .term>summary::-webkit-details-marker{display:none}
.pixpnet .term:is(:hover,:focus-within,[open])>summary{background:var(--soft)}
.pixpnet .tag{flex:none;width:1.9em;height:1.9em;line-height:1.9em;text-align:center;font-weight:700}
.pixpnet .crop{flex:none;background:var(--soft)}
.pixpnet .crop.none{display:inline-grid;place-items:center;text-align:center;font-size:.75em;line-height:1.2}
.pixpnet .says{flex:1 1 6.5em;min-width:0;line-height:1.35;font-size:.9em}
.pixpnet .says>span,.pixpnet .more span{display:block}
.pixpnet .adds{white-space:nowrap;font-size:1.25em;font-weight:650} .pixpnet .large .adds{font-size:1.6em}
.pixpnet .more{display:flex;flex-wrap:wrap;gap:8px 16px;padding:4px 6px 12px 3em;font-size:.9em;line-height:1.45}
.pixpnet .more>div{flex:1 1 14em}
.pixpnet .sum{border-top:2px solid var(--ink);padding-top:.4em;margin-top:.5em;display:flex;flex-wrap:wrap;gap:0 2em;
justify-content:space-between;max-width:none}
.pixpnet .fold>summary{font-weight:600;padding:.25em 0}
.pixpnet .plain{margin:0;padding:0 0 0 3em;font-size:.9em}
@supports selector(:has(a)){
.pixpnet .why>figure .mark{opacity:max(.1,var(--on,0));transition:opacity .15s}
.pixpnet .why:not(:has(.term:is(:hover,:focus-within,[open])))>figure .g0{--on:1}
LIT}
@media (prefers-reduced-motion:reduce){.pixpnet .mark{transition:none!important}}
@media print{.pixpnet .why>figure{position:static}}
"""


def html_of(explanation: Explanation) -> str:
    """What a notebook shows instead of the text."""
    best = explanation.predicted
    most = max(len(explained.terms) for explained in explanation.classes)
    lit = "".join(
        f".pixpnet .why:has(.t{number}:is(:hover,:focus-within,[open]))>figure .g{number}{{--on:1}}\n"
        for number in range(min(most, _PICTURED))
    )
    facts = [probability_words(explanation, best), *([] if best.path else [f"logit {best.logit:.2f}"])]
    body = [
        f'<p class="answer">{escaped(best.class_name)}</p>',
        f'<p class="muted">{escaped(" · ".join([*facts, explanation.image, explanation.model]))}</p>',
    ]
    if warned := doubt_text(explanation):
        body.append(f'<p class="note">{escaped(warned)}</p>')
    body += _class(explanation, best)
    for other in explanation.classes[1:]:
        body.append(f'<details class="fold"><summary>Why not {escaped(other.class_name)}? {_gets(other)}</summary>')
        body.append(f"<p>{escaped(contrast_text(explanation, other))}</p>")
        body += [*_class(explanation, other), "</details>"]
    body.append('<details class="fold"><summary>What this rests on</summary>')
    body += [f"<p>{escaped(sentence)}</p>" for sentence in _sentences(explanation)]
    body.append("</details>")
    return document("pixpnet-why", _STYLE.replace("LIT", lit), body)


def _gets(explained: ClassExplanation) -> str:
    return (
        f"Its logit is {explained.logit:.2f}" if explained.path is None else f"It gets {probability(explained.share)}"
    )


def _sentences(explanation: Explanation) -> Iterator[str]:
    proofs = [term.proof for explained in explanation.classes for term in explained.terms if term.proof]
    if proofs:
        yield proofs_text(proofs)
    yield from filter(None, (deciding_text(explanation), other_answers_text(explanation), not_found_text(explanation)))
    if explanation.choice_note is not None:
        yield choice_text(explanation.choice_note)
    if explanation.certainty is not None:
        yield calibration_words(explanation.certainty)
    yield from sight_text(explanation)


def _class(explanation: Explanation, explained: ClassExplanation) -> Iterator[str]:
    path, pictured = explained.path, explained.terms[:_PICTURED]
    alt = f"{explanation.image}, with the parts that speak for or against {explained.class_name}"
    yield '<div class="why">'
    yield f"<figure>{whole(explanation, [term.region for term in pictured], alt)}"
    yield "<figcaption>Point at a part to see where it is; open it for more.</figcaption></figure>"
    yield '<div class="terms">'
    legend = "This part of the picture, the part that it looks like, and what the likeness adds:"
    if path is not None:
        legend = "From the root on: the nearest part, the part that was looked for, and whether it was found:"
    yield f'<p class="muted">{legend}</p>'
    for number, term in enumerate(pictured):
        yield _term(explanation, explained, term, number)
    yield from _in_words(explanation, explained)
    if path is None:
        yield f'<p class="sum"><span>The sum of these{escaped(rest_text(explained))}</span>'
        yield f"<b>logit {explained.logit:.2f}</b></p>"
    else:
        yield f'<p class="sum"><span>{escaped(leaf_text(explained, path))}</span></p>'
    yield "</div></div>"


def _in_words(explanation: Explanation, explained: ClassExplanation) -> Iterator[str]:
    """The terms behind those with pictures."""
    plain = list(enumerate(explained.terms))[_PICTURED:]
    if not plain:
        return
    yield f'<details class="fold"><summary>{len(plain)} more, in words</summary><ol class="plain">'
    for number, term in plain:
        facts = escaped("; ".join(_facts(explanation, term)))
        yield f'<li value="{number + 1}">{_value(explained, term, number)}: {facts}</li>'
    yield "</ol></details>"


def _term(explanation: Explanation, explained: ClassExplanation, term: Term, number: int) -> str:
    width = _LARGE if _kind(explained, number) == "large" else _SMALL
    says = [f'<span class="adds">{_value(explained, term, number)}</span>']
    if term.proof is not None:
        held = "muted" if not term.proof.tested else "good" if term.proof.passed else "bad"
        says.append(f'<span class="{held}">{escaped(proof_result(term.proof))}</span>')
    shown = parts_words(term)
    says += [f"<span>{escaped(words)}</span>" for words in (shown, matters_text(term.qualities)) if words]
    name = called(term.prototype, term.name)
    if term.class_name and term.label != explained.label and explained.path is None:
        name += f" of {term.class_name}"
    if _kind(explained, number) != "small":
        name = f"sees {percent(share_of(term.region, explanation.size))} of the picture, {name}"
    says.append(f'<span class="muted">{escaped(name)}</span>')
    source = training_image(explanation, term, number)
    facts = "".join(f"<span>{escaped(fact)}</span>" for fact in _facts(explanation, term))
    return (
        f'<details class="term t{number} {_kind(explained, number)}"><summary>'
        f'<span class="tag" style="background:{color(number)};color:{ink_on(number)}">{number + 1}</span>'
        f"{this_part(explanation, term, width)}{that_part(explanation, term, width)}"
        f'<span class="says">{"".join(says)}</span></summary>'
        f'<div class="more">{source}<div>{facts}</div></div></details>'
    )


def _kind(explained: ClassExplanation, number: int) -> str:
    """The first terms are shown large, further ones side by side; nodes of a path stay under each other."""
    if explained.path is not None:
        return "turn"
    return "large" if number < SHOWN else "small"


def _value(explained: ClassExplanation, term: Term, number: int) -> str:
    return f"{term.contribution:+.2f}" if explained.path is None else escaped(turn_text(explained.path, number))


def _facts(explanation: Explanation, term: Term) -> Iterator[str]:
    """What else is known of a term, once it is opened."""
    grid = f", grid {term.grid + 1}" if len(explanation.sights) > 1 else ""
    share = percent(share_of(term.region, explanation.size))
    yield f"this part: rows and columns {location(term.region)} ({share}{grid})"
    if term.origin is None:
        yield f"like {called(term.prototype, term.name)}, which is no training patch"
    else:
        yield f"that part: {called(term.prototype, term.name)}, {location(term.origin.boxes)} of {term.origin.image}"
    if classes := ", ".join(filter(None, (term.class_name, also_text(term)))):
        yield f"it speaks for {classes}"
    yield f"weight {term.weight:.2f} x score {term.score:.2f}; distance {term.distance:.3g}"
    if term.qualities:
        yield f"the similarity falls, when only this is changed: {qualities_text(term.qualities)}"
