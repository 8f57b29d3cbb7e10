"""Chinese frames of questions; ``{F}`` is the noun phrase, ``{m}`` its measure word, ``{H}`` its noun."""

STYLES = ("interrogative", "imperative", "indirect", "keyword", "terse")
WEIGHTS = (10, 8, 7, 2, 3)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


PHRASE = {
    "interrogative": _lines(
        """
        {F}有哪些？
        {F}都有哪些？
        {F}分别是哪些？
        能查一下{F}吗？
        可以告诉我{F}吗？
        能帮我找到{F}吗？
        你知道{F}吗？
        能不能列出{F}？
        请问{F}有哪些？
        有办法查到{F}吗？
        能说说{F}都有哪些吗？
        """
    ),
    "imperative": _lines(
        """
        列出{F}。
        请给出{F}。
        帮我查一下{F}。
        告诉我{F}。
        查询{F}。
        找出{F}。
        请列举{F}。
        给我{F}。
        查一查{F}。
        请检索{F}。
        麻烦查出{F}。
        用工具查一下{F}。
        把{F}列出来。
        请把{F}找出来。
        把{F}告诉我。
        """
    ),
    "indirect": _lines(
        """
        我想知道{F}。
        我在找{F}。
        我需要查到{F}。
        我想了解一下{F}。
        我记不清{F}了。
        有人问我{F}，我答不上来。
        我得弄清楚{F}。
        我想请你查{F}。
        我很好奇{F}有哪些。
        我的任务是找到{F}。
        如果能知道{F}就好了。
        """
    ),
    "keyword": _lines(
        """
        {F}
        查 {F}
        搜索：{F}
        查询：{F}
        求{F}
        """
    ),
    "terse": _lines(
        """
        {F}？
        {F}，拜托了。
        快问：{F}？
        就查{F}。
        下一个：{F}。
        {F}，有哪些？
        """
    ),
}
SINGLE = {
    "interrogative": (
        "{F}是{who}？",
        "请问{F}是{who}？",
        "你知道{F}是{who}吗？",
        "能告诉我{F}是{who}吗？",
        "{F}是哪{m}？",
    ),
    "imperative": ("告诉我{F}是{who}。", "查一下{F}是{who}。", "请查出{F}是{who}。"),
    "indirect": ("我想知道{F}是{who}。", "我忘了{F}是{who}。", "我很好奇{F}是{who}。"),
}
COUNT = {
    "interrogative": (
        "{F}有多少{m}？",
        "{F}一共有几{m}？",
        "{F}总共有多少{m}？",
        "能数一下{F}有多少{m}吗？",
        "请问{F}有几{m}？",
    ),
    "imperative": (
        "统计一下{F}有多少{m}。",
        "告诉我{F}一共有多少{m}。",
        "请计算{F}的数量。",
        "数一数{F}有几{m}。",
        "给出{F}的总数。",
    ),
    "indirect": (
        "我想知道{F}有多少{m}。",
        "我需要{F}的数量。",
        "我想数一数{F}有多少{m}。",
        "我好奇{F}一共有几{m}。",
    ),
    "keyword": ("{F} 数量", "{F}有几{m}", "数量：{F}"),
    "terse": ("{F}，多少{m}？", "{F}：总数？", "{F}有几{m}？"),
}
OPENERS = _lines(
    """
    你好，
    您好，
    请教一下，
    打扰一下，
    麻烦你了，
    早上好，
    晚上好，
    嗨，
    有个问题：
    问个事：
    顺便问一下，
    我在写一份报告。
    我在准备一次演讲。
    朋友问了我这个问题。
    我在做功课。
    我们在打赌。
    这是猜谜用的。
    我在填一张表。
    我在核对数据。
    我对这方面不太熟。
    出于好奇，
    趁我还记得：
    有空的话，
    那么，
    请帮个忙：
    时间不多，
    """
)
CLOSERS = _lines(
    """
    谢谢！
    多谢。
    先谢过了。
    请用工具查。
    不要猜。
    简短回答就行。
    只要名字。
    不用解释。
    请准确一些。
    不着急。
    比较急。
    以工具的结果为准。
    就这些。
    我之后会再核对。
    """
)
START = (
    "先找出{F}。",
    "首先查出{F}。",
    "以{F}为起点。",
    "先看{F}。",
    "假设你已经有了{F}。",
    "从{F}开始。",
)
STEPS = ("请分步完成。", "按下面的步骤来。", "这件事要分几步。", "请一步一步来。")
GROUP = ("找出{F}，记为{L}组。", "查出{F}（称作{L}组）。", "令{L}组为{F}。", "{L}组：{F}。")
BOTH = _lines(
    """
    哪些{H}{both}？
    下面几组共有的是哪些：{groups}？
    找出下面几组的交集：{groups}。
    只保留同时出现在这几组里的：{groups}。
    请列出{both}的{H}。
    我想知道哪些{H}{both}。
    """
)
EITHER = _lines(
    """
    哪些{H}{either}？
    把下面几组合并成一个名单，不要重复：{groups}。
    列出至少属于其中一组的所有{H}：{groups}。
    我需要这几组的全部成员，每个只列一次：{groups}。
    请列出{either}的所有{H}。
    """
)
BUT = _lines(
    """
    {A}中，哪些不属于（{C}）？
    列出{A}，但要排除{C}。
    从{A}里去掉{C}，还剩哪些？
    哪些{H}属于（{A}）但不属于（{C}）？
    我要{A}，不过其中属于（{C}）的不要。
    先列{A}，再剔除{C}，剩下的是哪些？
    {A}之中，除去{C}，还有哪些？
    """
)
KEEP = _lines(
    """
    {A}中，哪些{whose}？
    在{A}里，只保留{whose}的。
    从{A}中挑出{whose}的。
    {A}里面{whose}的有哪些？
    我只要{A}中{whose}的{H}。
    """
)
RANK = _lines(
    """
    {A}中，{attribute}{best}的{k}{m}是哪些？
    在{A}里找出{attribute}{best}的前{k}{m}。
    把{A}按{attribute}排序，取{attribute}{best}的{k}{m}。
    我需要{A}中{attribute}{best}的{k}{m}{H}。
    {A}里{attribute}{best}的{k}{m}是？
    """
)
VALUE = _lines(
    """
    {S}的{attribute}是{what}？
    请问{S}的{attribute}是{what}？
    查一下{S}的{attribute}。
    告诉我{S}的{attribute}。
    我想知道{S}的{attribute}。
    {S}的{attribute}
    能查到{S}的{attribute}吗？
    我需要{S}的{attribute}。
    {S}的{attribute}，查一下。
    资料里{S}的{attribute}是{what}？
    """
)
COMPARE_VALUE = _lines(
    """
    {X}和{Y}相比，哪一个的{attribute}更{more}？
    {X}与{Y}，谁的{attribute}更{more}？
    比较{X}和{Y}的{attribute}，哪一个更{more}？
    在{X}和{Y}之间，{attribute}更{more}的是哪一个？
    告诉我{X}和{Y}中{attribute}更{more}的那一个。
    """
)
COMPARE_COUNT = _lines(
    """
    {FX}和{FY}，哪一边的数量更{more}？请回答{X}或{Y}。
    比较一下{FX}的数量与{FY}的数量：更{more}的是{X}还是{Y}？
    数一数{FX}，再数一数{FY}：哪个更{more}，{X}还是{Y}？
    论数量，{FX}和{FY}哪个更{more}？回答{X}或{Y}。
    """
)
