"""Do explanations help people? Two tasks after the HIVE study (Kim et al. 2022), on a run's own images.

*Agreement*: a part of an image beside the training patch that it is said to look like; a person says from 1 to 4 how
much it does, without knowing the answer. *Distinction*: an image with the explanations of up to four classes; a person
says which class is right, without their names.

`draw_quiz` makes the questions, `quiz_result` judges the replies, `replies_csv` hands them on.
"""

from pixpnet.metrics.quiz.drawing import QuizError, draw_quiz
from pixpnet.metrics.quiz.questions import (
    AgreementQuestion,
    Choice,
    DistinctionQuestion,
    Pair,
    PairKind,
    Quiz,
)
from pixpnet.metrics.quiz.replies import (
    RATINGS,
    AgreementReply,
    BadReply,
    DistinctionReply,
    Reply,
    append_reply,
    read_replies,
    replies_csv,
)
from pixpnet.metrics.quiz.result import QuizResult, Rated, Share, quiz_result

__all__ = [
    "RATINGS",
    "AgreementQuestion",
    "AgreementReply",
    "BadReply",
    "Choice",
    "DistinctionQuestion",
    "DistinctionReply",
    "Pair",
    "PairKind",
    "Quiz",
    "QuizError",
    "QuizResult",
    "Rated",
    "Reply",
    "Share",
    "append_reply",
    "draw_quiz",
    "quiz_result",
    "read_replies",
    "replies_csv",
]
