"""What the synthesizer asks of language: one object per graph and language."""

from collections.abc import Mapping

from transforms.record import RecordError
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.language.chinese_lexicon import ChineseLexicon
from transforms.synthesis.language.chinese_questions import ChineseQuestions
from transforms.synthesis.language.english_lexicon import EnglishLexicon
from transforms.synthesis.language.english_questions import EnglishQuestions
from transforms.synthesis.language.overrides import Overrides
from transforms.synthesis.language.surface import mention, utterance
from transforms.synthesis.language.words import Utterance
from transforms.synthesis.plan import Plan


class Realizer:
    """Speaks about one graph in one language."""

    def __init__(self, graph: Graph, lang: str, overrides: Overrides | None = None) -> None:
        self.graph = graph
        self.lang = lang
        self.questions: EnglishQuestions | ChineseQuestions
        if lang == "en":
            self.questions = EnglishQuestions(EnglishLexicon(graph, overrides))
        elif lang == "zh":
            self.questions = ChineseQuestions(ChineseLexicon(graph, overrides))
        else:
            raise RecordError(f"language {lang!r}: not known; use en or zh")

    def question(
        self,
        plan: Plan,
        draw: Draw,
        *,
        style: str | None = None,
        mentions: Mapping[int, str] | None = None,
    ) -> Utterance:
        style = style or self.questions.style(draw)
        core = self.questions.core(plan, draw, style)
        text, noise = self.questions.dressed(core, draw, style)
        quoting = (0, 0, 0, 1, 1, 1, 1, 2)[draw.below(8)]
        told = mentions or {}

        def name(entity: int) -> str:
            return told.get(entity) or mention(self.graph.labels[entity], quoting, self.lang)

        return utterance(text, name, style, noise)
