"""Chinese words: measure words, nouns of common types, how a label of a relation is read."""

import re
from dataclasses import dataclass
from typing import Literal

from transforms.synthesis.language.english_nouns import label_words
from transforms.synthesis.language.words import Noun

_TYPES = {
    "person": ("人物", "位"), "human": ("人物", "位"), "people": ("人物", "位"), "film": ("电影", "部"),
    "movie": ("电影", "部"), "city": ("城市", "座"), "country": ("国家", "个"), "company": ("公司", "家"),
    "organization": ("机构", "家"), "place": ("地点", "个"), "location": ("地点", "个"), "book": ("书", "本"),
    "song": ("歌曲", "首"), "album": ("专辑", "张"), "music": ("音乐条目", "个"), "travel": ("旅游条目", "个"),
    "genre": ("类型", "个"), "award": ("奖项", "个"), "university": ("大学", "所"), "school": ("学校", "所"),
    "team": ("球队", "支"), "language": ("语言", "种"), "event": ("事件", "个"), "product": ("产品", "个"),
    "class": ("类", "个"), "module": ("模块", "个"), "function": ("函数", "个"), "package": ("软件包", "个"),
    "actor": ("演员", "位"), "director": ("导演", "位"), "author": ("作者", "位"), "artist": ("艺人", "位"),
    "hotel": ("酒店", "家"), "restaurant": ("餐馆", "家"), "attraction": ("景点", "个"),
}  # fmt: skip
_MEASURES = (
    (r"(电影|影片|片|剧|作品|小说)$", "部"), (r"(歌曲|歌|曲)$", "首"), (r"专辑$", "张"),
    (r"(公司|企业|机构|酒店|餐馆|乐队公司)$", "家"), (r"(大学|学校|院校|学院)$", "所"), (r"(城市|山|桥|塔)$", "座"),
    (r"(乐队|球队|队伍)$", "支"), (r"(语言|方言)$", "种"), (r"书$", "本"),
)  # fmt: skip
_PEOPLE = re.compile(
    r"(人|者|员|师|手|家|演|导演|编剧|主演|歌手|父亲|母亲|妻子|丈夫|配偶|儿子|女儿|孩子|校长|经理|主唱|嘉宾|校友|原唱|谱曲|编曲|作曲|填词|作词|艺人|董事长|创始人|校友)$"
)
_NOT_PEOPLE = re.compile(r"(国家|人口|专家组|公司|手机|独家|成员国|作家协会|皇家)$")
_VERB_END = re.compile(r"(于|自|至|向|属|含|括|有|为|过|给|到)$")
_VERB_LIST = frozenset(
    [
        "包含",
        "包括",
        "属于",
        "拥有",
        "位于",
        "来自",
        "隶属",
        "隶属于",
        "依赖",
        "继承",
        "调用",
        "导入",
        "创作",
        "执导",
        "出演",
        "演唱",
        "收购",
        "影响",
        "认识",
        "喜欢",
        "参加",
        "参与",
        "毕业于",
        "出生于",
        "就职于",
        "任职于",
        "嫁给",
        "生产",
        "发行",
        "发布",
        "使用",
        "实现",
        "连接",
        "毗邻",
        "接壤",
        "支持",
        "担任",
        "主演了",
        "写了",
    ]
)
_READABLE = re.compile(r"^[\u3400-\u9fffA-Za-z0-9·\-]+$")
_CLOSED = re.compile(r"[的和与或但且及]|不是|之一|以外|多少|前\d")


@dataclass(frozen=True, slots=True)
class ChineseReading:
    """A label as Chinese: a noun for the tails, or a verb between head and tail."""

    kind: Literal["noun", "verb"]
    text: str
    animate: bool = False
    measure: str = "个"
    context: str = ""


def measure_of(noun: str, animate: bool) -> str:
    """Return the measure word of a noun."""
    if animate:
        return "位"
    return next((measure for pattern, measure in _MEASURES if re.search(pattern, noun)), "个")


def is_person(noun: str) -> bool:
    """Return whether a noun names people."""
    return bool(_PEOPLE.search(noun)) and not _NOT_PEOPLE.search(noun)


def type_noun(label: str, name: str) -> Noun:
    """Return the noun of a type; its plural field holds the measure word."""
    text = label_words(label or name)
    if text in _TYPES:
        word, measure = _TYPES[text]
        return Noun(word, measure, measure == "位")
    if not re.search(r"[\u3400-\u9fff]", text) or not _READABLE.match(text):
        return Noun(f"“{text}”条目", "个")
    person = is_person(text)
    return Noun(text, measure_of(text, person), person)


GENERAL = Noun("条目", "个")


def read_chinese(label: str) -> ChineseReading:
    """Read a relation's label as Chinese; what is not Chinese is quoted."""
    parts = [part.strip() for part in label.replace("./", " / ").split(" / ") if part.strip()]
    text = (parts[-1] if parts else label).strip("<> ")
    context = parts[0] if len(parts) > 1 and parts[0] != parts[-1] else ""
    text = text.removesuffix("的") or text
    if not re.search(r"[\u3400-\u9fff]", text):
        return ChineseReading("noun", f"“{label_words(text) or text}”", context=context)
    if not _READABLE.match(text) or _CLOSED.search(text) or text.startswith(("被", "由", "是")):
        return ChineseReading("noun", f"“{_plain(text)}”", context=context)
    if text in _VERB_LIST or _VERB_END.search(text):
        return ChineseReading("verb", text, context=context)
    person = is_person(text)
    return ChineseReading("noun", text, person, measure_of(text, person), context)


def _plain(text: str) -> str:
    return re.sub(r"[“”\x00-\x1f]", "", text)
