"""The requests of the tab Quiz: questions without their solutions, replies, and what they say.

What a question shows is numbered within the quiz, so that neither a class nor a prototype can be read from it before
the reply. Replies are kept in the run's `quiz.jsonl`, each with all that the result needs.
"""

import secrets
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pixpnet.box import hull
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.quiz import (
    RATINGS,
    AgreementReply,
    DistinctionReply,
    Pair,
    Quiz,
    QuizResult,
    Rated,
    Reply,
    Share,
    append_reply,
    draw_quiz,
    quiz_result,
    read_replies,
    replies_csv,
)
from pixpnet.metrics.quiz.replies import QUIZ_FILE
from pixpnet.progress import Progress
from pixpnet.verdicts import hashes_of
from pixpnet.views.explorer import pictures
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.explorer.requests import BadRequest, Handling, json_body, whole_number
from pixpnet.views.outline import svg_path
from pixpnet.views.pictures import cut_out, image_pixels
from pixpnet.views.prototypes import origin_pixels
from pixpnet.views.words import number, percent

_MOST_QUESTIONS = 200
_REMEMBERED = 8
_TASKS = ("agreement", "distinction")
_GONE = "this quiz is not in memory any more: draw another one; replies that were given are kept"


class Quizzes:
    """The quizzes that were drawn, the last ones of them."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._drawn: OrderedDict[str, Quiz] = OrderedDict()
        self._lock = threading.Lock()

    def draw(self, agreement: int, distinction: int, seed: int, progress: Progress) -> Result:
        """Draws a quiz and remembers it."""
        quiz = draw_quiz(self._explorer.model, self._explorer.images.data(), agreement, distinction, seed, progress)
        quiz_id = secrets.token_hex(8)
        with self._lock:
            self._drawn[quiz_id] = quiz
            while len(self._drawn) > _REMEMBERED:
                self._drawn.popitem(last=False)
        return Result({"quiz": quiz_id, "agreement": len(quiz.agreement), "distinction": len(quiz.distinction)})

    def get(self, quiz_id: str) -> Quiz:
        """A quiz.

        Raises:
            BadRequest: if it is not remembered.
        """
        with self._lock:
            if quiz_id not in self._drawn:
                raise BadRequest(_GONE, 404)
            return self._drawn[quiz_id]


def routes(explorer: Explorer) -> list[Route]:
    """What the tab may ask for."""
    quizzes, handling = Quizzes(explorer), Handling(explorer)

    async def draw(request: Request) -> Response:
        wanted = await json_body(request, explorer)
        agreement, distinction = (_count(wanted, task) for task in _TASKS)
        seed = wanted.get("seed", 0)
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise BadRequest("a seed is a whole number from 0 to 2147483647")
        return await handling.json(
            lambda: explorer.jobs.start(
                "Drawing a quiz", lambda progress: quizzes.draw(agreement, distinction, seed, progress)
            )
        )

    async def question(request: Request) -> Response:
        quiz, task, index = _asked(request, quizzes)
        return await handling.json(lambda: _question(quiz, task, index))

    async def image(request: Request) -> Response:
        quiz, task, index = _asked(request, quizzes)
        return await handling.picture(lambda: pictures.png(image_pixels(_questions(quiz, task)[index].explanation)))

    async def part(request: Request) -> Response:
        quiz, task, index = _asked(request, quizzes)
        pair_index = whole_number(request.path_params["pair"], "a pair")
        side = request.path_params["side"]
        return await handling.picture(lambda: _part(explorer, quiz, task, index, pair_index, side))

    async def reply(request: Request) -> Response:
        given = await json_body(request, explorer)
        quiz, task, index = _asked(request, quizzes)
        return await handling.json(lambda: _keep(explorer, quiz, task, index, given))

    async def result(request: Request) -> Response:
        return await handling.json(lambda: _result(quiz_result(_replies(explorer)), explorer))

    async def table(request: Request) -> Response:
        text = replies_csv(_replies(explorer))
        return Response(text, media_type="text/csv", headers={"content-disposition": 'attachment; filename="quiz.csv"'})

    one = "/api/quiz/{quiz:str}/{task:str}/{index:str}"
    return [
        Route("/api/quiz", draw, methods=["POST"]),
        Route("/api/quiz/result", result),
        Route("/api/quiz/replies.csv", table),
        Route(one, question),
        Route(one, reply, methods=["POST"]),
        Route(f"{one}/image", image),
        Route(f"{one}/{{pair:str}}/{{side:str}}", part),
    ]


def _count(wanted: dict[str, Any], task: str) -> int:
    count = wanted.get(task, {"agreement": 18, "distinction": 8}[task])
    least = {"agreement": 3, "distinction": 1}[task]
    if type(count) is not int or not least <= count <= _MOST_QUESTIONS:
        raise BadRequest(f"a quiz has {least} to {_MOST_QUESTIONS} questions of {task}")
    return count


def _asked(request: Request, quizzes: Quizzes) -> tuple[Quiz, str, int]:
    quiz, task = quizzes.get(request.path_params["quiz"]), request.path_params["task"]
    if task not in _TASKS:
        raise BadRequest(f"the tasks of a quiz are {' and '.join(_TASKS)}", 404)
    index = whole_number(request.path_params["index"], "a question")
    if index >= len(_questions(quiz, task)):
        raise BadRequest("there is no such question", 404)
    return quiz, task, index


def _questions(quiz: Quiz, task: str) -> Any:
    return quiz.agreement if task == "agreement" else quiz.distinction


def _pairs(quiz: Quiz, task: str, index: int) -> list[Pair]:
    """Every pair that a question shows, in the order in which the page numbers them."""
    if task == "agreement":
        return [quiz.agreement[index].pair]
    return [pair for choice in quiz.distinction[index].choices for pair in choice.pairs]


def _question(quiz: Quiz, task: str, index: int) -> dict[str, Any]:
    """What a person sees: nothing of it says what is right."""
    question = _questions(quiz, task)[index]
    height, width = question.explanation.size
    facts: dict[str, Any] = {"task": task, "index": index, "height": height, "width": width}
    if task == "agreement":
        return {**facts, "pair": _pair_facts(quiz.agreement[index].pair), "ratings": list(RATINGS.items())}
    counted = 0
    choices = []
    for choice in quiz.distinction[index].choices:
        choices.append([{"pair": counted + offset, **_pair_facts(pair)} for offset, pair in enumerate(choice.pairs)])
        counted += len(choice.pairs)
    return {**facts, "choices": choices}


def _pair_facts(pair: Pair) -> dict[str, Any]:
    around = hull(pair.region)
    return {"path": svg_path(pair.region), "hull": None if around is None else list(around)}


def _part(explorer: Explorer, quiz: Quiz, task: str, index: int, pair_index: int, side: str) -> pictures.Encoded:
    pairs = _pairs(quiz, task, index)
    if pair_index >= len(pairs) or side not in ("this", "that"):
        raise BadRequest("there is no such picture", 404)
    pair = pairs[pair_index]
    if side == "this":
        seen = cut_out(image_pixels(_questions(quiz, task)[index].explanation), pair.region)
    else:
        seen = cut_out(origin_pixels(explorer.model, pair.origin), pair.origin.boxes)
    if seen is None:
        raise BadRequest("this part holds no pixel", 404)
    return pictures.png(seen)


def _keep(explorer: Explorer, quiz: Quiz, task: str, index: int, given: dict[str, Any]) -> dict[str, Any]:
    """Writes a reply down; what was right is not told, since other questions are about the same model."""
    person, value = given.get("person", ""), given.get("value")
    if not isinstance(person, str) or type(value) is not int:
        raise BadRequest("a reply is a number, with the name of a person")
    append_reply(explorer.run.path / QUIZ_FILE, _reply(explorer, quiz, task, index, person, value))
    return {"kept": True}


def _reply(explorer: Explorer, quiz: Quiz, task: str, index: int, person: str, value: int) -> Reply:
    time, model = datetime.now(UTC).isoformat(timespec="seconds"), explorer.run.fingerprint()
    if task == "agreement":
        pair_question = quiz.agreement[index]
        return AgreementReply(
            person,
            time,
            model,
            pair_question.explanation.image,
            pair_question.pair.origin.prototype,
            pair_question.kind,
            value,
        )
    question = quiz.distinction[index]
    if not 0 <= value < len(question.choices):
        raise BadRequest("there is no such explanation to choose")
    names = explorer.model.class_names
    return DistinctionReply(
        person,
        time,
        model,
        question.explanation.image,
        names[question.choices[value].label],
        names[question.truth],
        len(question.choices),
        question.model_right,
    )


def _replies(explorer: Explorer) -> tuple[Reply, ...]:
    return read_replies(explorer.run.path / QUIZ_FILE, hashes_of(explorer.run.path, explorer.run.fingerprint()))


def _result(result: QuizResult, explorer: Explorer) -> dict[str, Any]:
    replies = _replies(explorer)
    return {
        "replies": len(replies),
        "people": result.people,
        "unnamed": result.unnamed,
        "agreement": [
            _rated("Answers that are right", result.right),
            _rated("Answers that are wrong", result.wrong),
            _rated("Controls: patches drawn at random", result.control),
        ],
        "distinction": [
            _shared("All images", result.distinction),
            _shared("Images that the model gets right", result.distinction_right),
            _shared("Images that the model gets wrong", result.distinction_wrong),
        ],
        "chance": None if result.chance is None else {"share": result.chance, "words": percent(result.chance)},
        "reading": _reading(result),
    }


def _rated(name: str, rated: Rated) -> dict[str, Any]:
    return {"name": name, "rating": _estimate(rated.rating), "alike": _shared("", rated.alike)}


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    words = number(estimate.mean)
    if estimate.low is not None and estimate.high is not None:
        words += f" ({number(estimate.low)} to {number(estimate.high)})"
    return {
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "words": words,
        "count": estimate.count,
        "images": estimate.clusters,
    }


def _shared(name: str, share: Share) -> dict[str, Any]:
    if share.share is None:
        return {"name": name, "share": None, "words": "no replies yet", "count": 0, "of": 0}
    words, low, high = percent(share.share), None, None
    if share.interval is not None:
        low, high = share.interval.low, share.interval.high
        words += f" ({percent(low)} to {percent(high)})"
    return {
        "name": name,
        "share": share.share,
        "low": low,
        "high": high,
        "words": words,
        "count": share.count,
        "of": share.of,
    }


def _reading(result: QuizResult) -> list[str]:
    """What the figures say, in sentences that are no stronger than the intervals."""
    sentences = []
    own, control = result.right.rating, result.control.rating
    if own is not None and control is not None and own.low is not None and control.high is not None:
        if own.low > control.high:
            sentences.append("People see the likeness that the model claims: its pairs are rated above random ones.")
        else:
            sentences.append("So far the model's pairs are not told apart from random ones.")
    whole = result.distinction
    if whole.interval is not None and result.chance is not None:
        if whole.interval.low > result.chance:
            sentences.append("Explanations help to find the right class: the share is above what guessing gives.")
        else:
            sentences.append("So far the right class is not found more often than by guessing.")
    return sentences
