"""English frames of questions: what stands around a noun phrase.

``{F}`` is the whole phrase, ``{B}`` the phrase without its article, ``{W}`` who or what, ``{w}`` the
same in lower case, ``{be}`` the verb that agrees with the phrase, ``{H}`` the noun of the answers in
the plural. Frames are kept by style and by what they need of the phrase.
"""

STYLES = ("interrogative", "imperative", "indirect", "keyword", "terse")
WEIGHTS = (10, 8, 7, 2, 3)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


PHRASE = {
    "interrogative": _lines(
        """
        {W} {be} {F}?
        {W} exactly {be} {F}?
        Could you find {F}?
        Can you name {F}?
        Would you look up {F}?
        Can you give me {F}?
        Could you tell me {F}?
        Can you help me find {F}?
        Would you mind looking up {F}?
        Can you work out {F}?
        Could you check the data for {F}?
        Will you fetch {F}?
        """
    ),
    "imperative": _lines(
        """
        Find {F}.
        Name {F}.
        Give me {F}.
        Show me {F}.
        Look up {F}.
        Tell me {F}.
        Return {F}.
        Retrieve {F}.
        Identify {F}.
        Get {F}.
        Fetch {F}.
        Work out {F}.
        Report {F}.
        Write down {F}.
        Search for {F}.
        Determine {F}.
        Pull up {F}.
        Use the tools to find {F}.
        """
    ),
    "indirect": _lines(
        """
        I need {F}.
        I am looking for {F}.
        I am trying to find {F}.
        I have to find {F}.
        It would help me to have {F}.
        I have been asked for {F}.
        I cannot remember {F}.
        I want you to find {F}.
        I was hoping that you could find {F}.
        My task is to find {F}.
        What I need {be} {F}.
        I would be glad to get {F}.
        Help me find {F}.
        Let's find {F}.
        """
    ),
    "keyword": _lines(
        """
        {B}
        {B}?
        search: {B}
        lookup: {B}
        query: {B}
        find {B}
        wanted: {B}
        """
    ),
    "terse": _lines(
        """
        {F}, please.
        Quick one: {F}?
        {F}: any idea?
        Just {F}.
        {F}. Go.
        Next: {F}.
        Needed: {F}.
        My question: {w} {be} {F}?
        """
    ),
}
LIGHT = {
    "interrogative": _lines(
        """
        Can you tell me {w} {F} {be}?
        Do you know {w} {F} {be}?
        Could you find out {w} {F} {be}?
        Any idea {w} {F} {be}?
        Is there a way to see {w} {F} {be}?
        """
    ),
    "imperative": _lines(
        """
        Tell me {w} {F} {be}.
        Find out {w} {F} {be}.
        Check {w} {F} {be}.
        Let me know {w} {F} {be}.
        """
    ),
    "indirect": _lines(
        """
        I would like to know {w} {F} {be}.
        I was wondering {w} {F} {be}.
        I want to know {w} {F} {be}.
        I am curious {w} {F} {be}.
        I have to know {w} {F} {be}.
        I keep forgetting {w} {F} {be}.
        Nobody here knows {w} {F} {be}.
        """
    ),
}
MANY = {
    "interrogative": _lines(
        """
        Could you list {F}?
        Can you list {F}?
        Can I have a list of {F}?
        """
    ),
    "imperative": _lines(
        """
        List {F}.
        List all of {F}.
        Give me all of {F}.
        Enumerate {F}.
        Compile a list of {F}.
        Make a list of {F}.
        """
    ),
    "indirect": _lines(
        """
        I need a complete list of {F}.
        I would like to have a list of {F}.
        I have to write down all of {F}.
        """
    ),
}
COUNT = {
    "interrogative": _lines(
        """
        How many {B} are there?
        How many {B} can you find?
        How many {B} do the data hold?
        How many different {B} are there?
        What is the number of {B}?
        Can you count {F}?
        Can you tell me how many {B} there are?
        Do you know the number of {B}?
        """
    ),
    "imperative": _lines(
        """
        Count {F}.
        Give me the number of {B}.
        Tell me how many {B} there are.
        Find out how many {B} there are.
        Report the number of {B}.
        Look up how many {B} there are.
        Work out the number of {B}.
        """
    ),
    "indirect": _lines(
        """
        I want to know how many {B} there are.
        I need the number of {B}.
        I was wondering how many {B} there are.
        I am trying to count {F}.
        I would like to know the number of {B}.
        """
    ),
    "keyword": _lines(
        """
        number of {B}
        count: {B}
        how many {B}
        how many {B}?
        """
    ),
    "terse": _lines(
        """
        The number of {B}, please.
        {F}: how many are there?
        {F}: how many in total?
        Quick count of {B}?
        """
    ),
}
OPENERS = _lines(
    """
    Hi,
    Hello,
    Hi there,
    Hey,
    Good morning,
    Good evening,
    Okay,
    Right,
    Quick question:
    For a quiz tonight:
    For a report that I am writing:
    For my notes:
    For school:
    Out of curiosity:
    One more thing:
    I have a question for you.
    I am preparing a talk.
    I am filling in a form.
    I am checking a database.
    A colleague asked me this.
    We are settling a bet.
    My daughter wants to know this.
    This is for a crossword.
    Here is what I need.
    Please help me with this.
    Something for you to look up:
    Thanks for helping me.
    I am new to this topic.
    I have little time.
    This may be an odd request.
    To settle an argument:
    Before I forget:
    When you have a minute:
    So,
    Well,
    """
)
CLOSERS = _lines(
    """
    Thanks!
    Thank you.
    Thanks in advance.
    Many thanks.
    Please use the tools for this.
    Please be exact.
    Do not guess.
    A short answer is enough.
    No explanation needed.
    Names are enough.
    I trust your lookup more than my memory.
    Take your time.
    That is all I need.
    Cheers.
    It is urgent.
    I will double-check it later.
    Please check the data first.
    Only what the tools say, please.
    """
)
TYPO_WORDS = frozenset(
    [
        "please",
        "could",
        "would",
        "tell",
        "find",
        "give",
        "show",
        "list",
        "know",
        "need",
        "want",
        "looking",
        "thanks",
        "thank",
        "which",
        "what",
        "hello",
        "question",
        "looking",
        "fetch",
        "retrieve",
        "identify",
        "search",
        "wondering",
        "trying",
        "curious",
        "report",
        "quick",
    ]
)
START = _lines(
    """
    Take {F}.
    Consider {F}.
    Start with {F}.
    First, find {F}.
    Begin with {F}.
    First look up {F}.
    Begin by finding {F}.
    Suppose you have {F}.
    """
)
"""How the first of two sentences names a set."""
STEPS = _lines(
    """
    Please work in steps.
    Do this step by step.
    Here is a task in several steps.
    Follow these steps.
    This takes a few steps.
    """
)
GROUP = _lines(
    """
    Find {F}; call this group {L}.
    Look up {F} (group {L}).
    Let group {L} be {F}.
    Group {L}: {F}.
    """
)
BOTH = _lines(
    """
    Which {H} are {among}?
    Which {H} belong to both of these groups: (a) {A}; (b) {C}?
    What do these two lists have in common: (a) {A}; (b) {C}?
    Find the overlap of these two lists: (a) {A}; (b) {C}.
    Keep only what is in both lists: (a) {A}; (b) {C}.
    Look at {A}. Which of them are also among {C}?
    Which of {A} are also among {C}?
    Name those of {A} that are also among {C}.
    I need the {H} that are {among}.
    Give me the {H} that are {among}.
    Tell me which {H} are {among}.
    Go through {A} and keep those that are also among {C}.
    """
)
ALL = _lines(
    """
    Which {H} are {among}?
    Which {H} belong to all of these groups: {groups}?
    What do these lists have in common: {groups}?
    Find what is in every one of these lists: {groups}.
    Tell me which {H} are {among}.
    I need the {H} that are in all of these groups: {groups}.
    """
)
EITHER = _lines(
    """
    Which {H} are {among}?
    Combine these lists into one, without repeats: {groups}.
    List everything that is in at least one of these groups: {groups}.
    Give me one list with the members of all these groups, each only once: {groups}.
    Which {H} are in any of these groups: {groups}?
    Put these together in a single list: {groups}.
    I need every one of the {H} that are {among}.
    Merge the following lists: {groups}.
    """
)
BUT = _lines(
    """
    Which of {A} are not among {C}?
    List {A}, but leave out those that are also among {C}.
    Take {A} and leave out {C}. What remains?
    Remove {C} from {A}. What is left?
    Start with {A}. Drop whatever is among {C}. Which {H} are left?
    Name those of {A} that are not among {C}.
    I need {A}, except for those that are also among {C}.
    Give me {A}, but not those that are among {C}.
    Which {H} are among {A} but not among {C}?
    Find {A} and cross out {C}.
    Tell me which of {A} are not among {C}.
    """
)
KEEP = _lines(
    """
    Which of {A} have {having}?
    Which of {A} are there {having}?
    From {A}, keep only those {whose}.
    Of {A}, list the ones {whose}.
    Go through {A} and name those {whose}.
    Narrow down {A} to those {having}.
    I need those of {A} {whose}.
    Filter {A}: keep those {having}.
    """
)
RANK = _lines(
    """
    Which {k} of {A} have the {best} {attribute}?
    Of {A}, name the {k} with the {best} {attribute}.
    Rank {A} according to {attribute} and give me the {k} with the {best} one.
    From {A}, pick the {k} with the {best} {attribute}.
    I need the {k} of {A} that have the {best} {attribute}.
    Sort {A} according to {attribute} and keep only the {k} with the {best} {attribute}.
    """
)
RANK_ONE = _lines(
    """
    Which of {A} has the {best} {attribute}?
    Of {A}, which one has the {best} {attribute}?
    From {A}, pick the one with the {best} {attribute}.
    I need just one of {A}: the one with the {best} {attribute}.
    Go through {A} and name the one with the {best} {attribute}.
    """
)
VALUE = _lines(
    """
    What is the {attribute} of {S}?
    What {attribute} does {S} have?
    Tell me the {attribute} of {S}.
    Look up the {attribute} of {S}.
    Give me the {attribute} of {S}.
    I need the {attribute} of {S}.
    I would like to know the {attribute} of {S}.
    Can you find the {attribute} of {S}?
    Could you check the {attribute} of {S}?
    Find out the {attribute} that is given for {S}.
    What is given as the {attribute} of {S}?
    Do you have the {attribute} of {S}?
    What do the data say about the {attribute} of {S}?
    I am looking for the {attribute} of {S}.
    Report the {attribute} of {S}.
    The {attribute} of {S}, please.
    {attribute} of {S}
    """
)
COMPARE_VALUE = _lines(
    """
    Which has the {more} {attribute}, {X} or {Y}?
    Of {X} and {Y}, which has the {more} {attribute}?
    Compare the {attribute} of {X} with that of {Y}: which of the two has the {more} one?
    {X} or {Y}: which has the {more} {attribute}?
    Tell me which of {X} and {Y} has the {more} {attribute}.
    Between {X} and {Y}, which one has the {more} {attribute}?
    I need to know which of {X} and {Y} has the {more} {attribute}.
    Look up the {attribute} of {X} and of {Y} and name the one with the {more} {attribute}.
    """
)
COMPARE_COUNT = _lines(
    """
    Which is there {more} of: {BX}, or {BY}? Answer with {X} or {Y}.
    Are there {more} {BX} or {more} {BY}? Answer with {X} or {Y}.
    Count {FX} and count {FY}. For which of {X} and {Y} is the number {size}?
    Compare the number of {BX} with the number of {BY}: is it {size} for {X} or for {Y}?
    Tell me whether there are {more} {BX} or {more} {BY}, and answer with {X} or {Y}.
    The number of {BX} or the number of {BY}: which is {size}? Answer with {X} or {Y}.
    """
)
COMPARE_OWN = _lines(
    """
    Which has {more} {H}, {X} or {Y}?
    Does {X} or {Y} have {more} {H}?
    Of {X} and {Y}, which one has {more} {H}?
    {X} or {Y}: which has {more} {H}?
    Tell me which of {X} and {Y} has {more} {H}.
    """
)
