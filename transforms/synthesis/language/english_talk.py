"""English sentences around questions: follow-ups, answers, refusals, prompts, descriptions.

``{F}`` is a noun phrase, ``{X}`` and ``{Y}`` entities, ``{N}`` a number, ``{L}`` a list of names, ``{H}``
and ``{h}`` a noun in the plural and the singular, ``{be}`` its verb, ``{name}`` a name in quotes.
"""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


THAT = ("that {h}", "this {h}", "a certain {h}", "some {h}")
SUPPLY = (
    "I mean {X}.",
    "{X}.",
    "{X}, please.",
    "Sorry, I mean {X}.",
    "I was thinking of {X}.",
    "Take {X}.",
    "Make it {X}.",
    "It is {X}.",
)
OTHER = (
    "And {X}?",
    "What about {X}?",
    "And for {X}?",
    "How about {X}?",
    "The same for {X}, please.",
    "Now the same for {X}.",
    "Same question for {X}.",
    "Could you do that for {X} too?",
    "And what is it for {X}?",
)
OTHER_OF = (
    "And with {X} instead of {Y}?",
    "The same, but with {X} in place of {Y}.",
    "Now put {X} where I said {Y}.",
    "What changes with {X} instead of {Y}? Give me the new answer.",
    "Repeat that with {X} rather than {Y}.",
    "Same question, with {X} for {Y}.",
)
BACK = (
    "Back to my first question: {rest}",
    "To return to what I asked first: {rest}",
    "One more on my earlier question. {Rest}",
    "Let's go back to the first topic. {Rest}",
)
REFINE = (
    "Which of them are also among {F}?",
    "Of those, which are also among {F}?",
    "Keep only those that are also among {F}.",
    "And which of these are among {F} too?",
    "Now narrow that down to those that are also among {F}.",
    "Are any of them among {F}? Name them.",
    "Which ones are among {F} as well?",
)
REFINE_VERB = (
    "Which of them {P}?",
    "Of those, which {P}?",
    "And which of these {P}?",
    "Now only the ones that {P}.",
)
CORRECT = (
    "Sorry, I meant {X}, not {Y}.",
    "Actually, I meant {X} instead of {Y}.",
    "No, not {Y}: I meant {X}.",
    "My mistake, it should have been {X} rather than {Y}.",
    "Oh wait, I said {Y} but I meant {X}.",
    "Please redo that with {X}; {Y} was a slip.",
)
SAVE = (
    "Save them as {name}.",
    "Please keep that list under the name {name}.",
    "Store this result as {name}.",
    "Remember these as {name}.",
    "Put them into a list called {name}.",
)
USE = (
    "From {name}, which ones are also among {F}?",
    "Take {name} again: which of them are among {F}?",
    "Of the ones in {name}, list those that are also among {F}.",
    "Look at {name}. Which of these are also among {F}?",
)
RECALL_COUNT = (
    "How many were they?",
    "How many was that?",
    "How many is that in total?",
    "And how many are there?",
    "Can you tell me how many you just listed?",
)
RECALL_ONE = (
    "Was {X} among them?",
    "Is {X} one of them?",
    "Did your answer include {X}?",
    "Was {X} on that list?",
    "Just to be sure: was {X} among them?",
)
RELAX = (
    "Then drop the other condition: just {F}.",
    "All right, then only {F}.",
    "Then forget the second condition and give me {F}.",
    "Okay, leave out the rest. What I want {be} {F}.",
    "Then let's be less strict: {F}, nothing else.",
)
SMALL_TALK = (
    ("Hi! How are you today?", "Hello! I am doing well, thank you. What can I look up for you?"),
    ("Hello there!", "Hello! How can I help you?"),
    ("Thank you, that was very helpful.", "You are welcome!"),
    (
        "What can you do?",
        "I can look things up with the tools I have here and answer questions from what they return.",
    ),
    ("Who are you?", "I am an assistant that answers questions with the help of lookup tools."),
    ("Are you a human?", "No, I am an assistant program. Tell me what you would like to know."),
    ("Good night!", "Good night, and sleep well!"),
    (
        "I am bored.",
        "I am sorry to hear that. Ask me anything you are curious about, and I will look it up.",
    ),
    (
        "Can I ask you several questions in a row?",
        "Of course. Ask as many as you like, one after another.",
    ),
    ("Please wait a moment, I am still thinking about my question.", "No problem, take your time."),
    ("Do you ever sleep?", "No, I am available whenever you need me."),
    ("Nice to meet you.", "Nice to meet you too! What would you like to know?"),
    ("That is all for today.", "Glad I could help. Goodbye!"),
    ("You made my day.", "That is kind of you. I am happy to help."),
    (
        "Should I write my questions in full sentences?",
        "Whatever is easiest for you. Keywords work too.",
    ),
    (
        "Is it all right if I make spelling mistakes?",
        "Yes. If a name cannot be found, I will suggest the closest one.",
    ),
    ("I have changed my mind, never mind.", "All right. Let me know if something else comes up."),
    ("Give me a second to find my notes.", "Sure, I will be here."),
    ("Let's start over.", "Sure. What would you like to know?"),
    ("Do you mind if I come back later?", "Not at all. Come back whenever you like."),
    ("You are fast!", "Thank you! Is there anything else I can look up?"),
    ("My name is on the tip of my tongue, ha.", "Ha! Take your time."),
    ("Cheers!", "Cheers! Let me know if you need anything else."),
    (
        "Can you keep a secret?",
        "I would rather not hold secrets, but I am glad to look things up for you.",
    ),
)
NONE = (
    "Nothing matches: the tools returned no result for this.",
    "There are none.",
    "I found nothing that fits.",
    "No result: nothing in the data fits.",
    "According to the tools there are none.",
)
ONE_FOUND = (
    "{L}.",
    "It is {L}.",
    "The answer is {L}.",
    "That is {L}.",
    "I found one: {L}.",
    "There is one result: {L}.",
    "The tools give {L}.",
)
SOME = (
    "{L}.",
    "They are {L}.",
    "I found {N}: {L}.",
    "There are {N}: {L}.",
    "The answer is: {L}.",
    "Here they are: {L}.",
    "The tools return {N} results: {L}.",
    "These are the {H}: {L}.",
    "The {H} are {L}.",
)
BULLETS = (
    "I found {N}:",
    "Here are the {N} {H}:",
    "There are {N} of them:",
    "Here is the list:",
    "The {H}:",
)
FIRST = (
    "There are {N}. The first {K} are {L}.",
    "I found {N} in all; here are the first {K}: {L}.",
    "{N} results. First {K} of {N}: {L}.",
    "Here are the first {K} of {N}: {L}.",
)
COUNTED = (
    "There {are} {N}.",
    "{N}.",
    "The number is {N}.",
    "The answer is {N}.",
    "I count {N}.",
    "In total: {N}.",
    "It comes to {N}.",
)
VALUED = (
    "The {attribute} of {X} is {V}.",
    "{V}.",
    "It is {V}.",
    "For {X}, the {attribute} is {V}.",
    "The tools give {V}.",
)
NO_VALUE = ("No {attribute} is given for {X}.", "I found no {attribute} for {X}.")
WINS = ("{X}.", "It is {X}.", "{X} comes out ahead.", "That would be {X}.", "The answer is {X}.")
TIE = ("Neither: the two numbers are equal.", "It is a tie.")
YES = ("Yes, {X} was among them.", "Yes, {X} is one of them.", "Yes, it included {X}.")
NO = ("No, {X} was not among them.", "No, {X} is not one of them.", "No, {X} was not on the list.")
RECALLED = ("{N}.", "There {were} {N}.", "I listed {N}.", "That was {N} in total.")
DONE = (
    "Done: the list is saved as {name}.",
    "I saved them as {name}.",
    "Saved under {name}.",
    "The list {name} is stored.",
)
REFUSAL = (
    "I cannot answer this: none of the available tools gives {F}.",
    "I am sorry, but I have no tool that gives {F}, so I cannot answer the question.",
    "That is not possible with the tools at hand: nothing here provides {F}.",
    "To answer this I would need {F}, and no tool that I have returns that.",
    "No available tool can look up {F}. I would have to guess, and I will not do that.",
)
PARTIAL = (
    "I could find {K}: {L}. But none of the tools gives {F}, so I cannot finish the answer.",
    "Here is what I could find: {K} ({L}). There is no tool for {F}, so the rest stays open.",
    "I can only answer a part of this. For {K}, the tools give {L}; nothing provides {F}.",
)
PARTIAL_NONE = (
    "I looked for {K} and found nothing. None of the tools gives {F} either, so I cannot answer.",
)
WHICH = (
    "Which {h} do you mean?",
    "Could you tell me which {h} you mean?",
    "Please name the {h}.",
    "I need the name of the {h} first. Which one is it?",
    "What is the {h} called?",
)
AMBIGUOUS = (
    "There are several entries called {name}: {L}. Which one do you mean?",
    "{name} could be any of these: {L}. Which one is it?",
    "I know more than one {name}: {L}. Please choose one.",
    "Before I look that up: do you mean {O}?",
)
CORRECTION = (
    "Nothing is called {Y}. I will try {X}.",
    "{Y} was not found; the closest match is {X}, so I look that up instead.",
    "There is no entry for {Y}. Trying {X}.",
    "I could not find {Y}. You probably mean {X}; let me check that.",
)
RETRY = {
    "rate_limit": (
        "The tool is over its rate limit; I will call it again.",
        "Too many requests for the moment. I am trying again.",
    ),
    "timeout": ("The call timed out. I will repeat it.", "No answer in time; trying once more."),
    "bad_response": (
        "The reply could not be read. I am calling the tool again.",
        "That response was broken, so I ask again.",
    ),
    "unavailable": (
        "The service is not available right now; I will try it again.",
        "The tool did not respond. Another attempt.",
    ),
}
THOUGHT = (
    "I will look up {F}.",
    "Let me find {F}.",
    "First I need {F}.",
    "I start with {F}.",
    "Let me check {F}.",
)
THOUGHT_STEPS = (
    "This takes several lookups; I go step by step.",
    "I will work through this in steps.",
    "Let me take this one lookup at a time.",
)
NUMBER_OF, VALUE_OF = "the number of {B}", "the {attribute} of {F}"

ROLES = _lines(
    """
    You are a helpful assistant with access to tools.
    You are an assistant that answers questions with the functions listed below.
    You are a careful research assistant. You can call functions to look up facts.
    You answer questions about a database through its functions.
    You are a tool-using assistant.
    You are a function calling AI model.
    You are a data assistant. The user asks, you look it up.
    You are an expert in finding facts with the tools that are given to you.
    You help users to query a knowledge base.
    You work for an information desk and have several lookup tools.
    Act as an assistant that has access to a set of functions.
    Your job is to answer questions with the help of the tools.
    """
)
FAMILIES = {
    "native": _lines(
        """
        Use the tools whenever the answer depends on data.
        Call a function when you need information that you do not have.
        Decide for yourself which function to call and with which arguments.
        Several independent calls may be made at once.
        When the tools have given you enough, answer in plain words.
        Combine the results of several calls where that is needed.
        """
    ),
    "hermes": _lines(
        """
        You are provided with function signatures. You may call one or more functions to assist with the user query.
        The function signatures tell you the names and types of the arguments.
        For each function call return the name of the function and an object with its arguments.
        Do not make assumptions about what values to plug into functions.
        You may make several function calls if the question needs them.
        After the functions have responded, use their responses to answer.
        """
    ),
    "react": _lines(
        """
        Answer the questions as best you can. Think about what is missing, act with a tool, and observe the result.
        Repeat thinking, acting and observing until you know the final answer.
        Each action is one tool with its input; its observation follows.
        Think first about which facts are needed, then call the tools for them.
        Base every step on what was observed before.
        Stop acting as soon as the observations answer the question, and state the answer.
        """
    ),
}
RULES = _lines(
    """
    Never invent facts.
    Do not answer from memory.
    If no tool can help, say so.
    If a name is ambiguous, ask which one is meant.
    If something is missing from the question, ask for it.
    Keep answers short.
    Name every result unless there are very many.
    If a call fails, try it again or explain what went wrong.
    Use only the tools that are listed.
    Copy names exactly as the tools return them.
    Answer in the language of the user.
    Do not call a tool when none is needed.
    Do not repeat a call that has already succeeded.
    Say when only a part of the question can be answered.
    Be polite.
    State numbers exactly.
    Pass names to the tools as they are written.
    Do not explain how the tools work.
    """
)
SETTINGS = _lines(
    """
    Today's requests come from a chat window.
    The users are employees who look up data.
    The users are students.
    Requests may come from a script, so keep to the point.
    Some users write carelessly.
    The data may be incomplete.
    The conversation may have several turns.
    Users may refer to earlier answers.
    """
)
VERBS = ("Returns", "Gets", "Lists", "Finds", "Looks up", "Retrieves", "Fetches")
GIVEN = ("a given {h}", "the given {h}", "one {h}")
OPS = {
    "project": (
        "{V} the {F}.",
        "{V} the {F}. The result is a list, which may be empty.",
        "Use this to find the {F}.",
        "Looks for the {F}.",
        "{V} the {F}, as recorded in the data.",
        "Lookup of the {F}.",
    ),
    "value": (
        "{V} the {attribute} of {G}.",
        "Gives the {attribute} recorded for {G}.",
        "{V} one value: the {attribute} of {G}.",
        "Use this to look up the {attribute} of {G}.",
    ),
    "filter": (
        "Keeps the entries whose {attribute} meets a condition.",
        "Filters a list by {attribute}.",
        "{V} the entries of a list whose {attribute} lies within the given bounds or equals the given value.",
        "Selects from a list by {attribute}; entries without one are left out.",
    ),
    "top": (
        "{V} the entries with the highest or lowest {attribute}.",
        "Ranks a list by {attribute} and keeps the first ones.",
        "Sorts entries by {attribute} and returns the best ones in the order asked for.",
    ),
    "intersect": (
        "{V} what is in all of the given lists.",
        "Intersection of lists: keeps what they have in common.",
        "Keeps only the entries that every list holds.",
        "Finds the overlap of two or three lists.",
    ),
    "unite": (
        "{V} what is in any of the given lists, each entry once.",
        "Union of lists without repeats.",
        "Merges lists into one.",
        "Combines two or three lists.",
    ),
    "subtract": (
        "{V} what is in the first list but not in the second.",
        "Difference of two lists.",
        "Removes the entries of one list from another.",
        "Keeps the entries of a list that another list lacks.",
    ),
    "count": (
        "Counts the entries of a list.",
        "{V} how many entries a list has.",
        "Gives the number of entries.",
        "Returns the size of a list.",
    ),
    "search": (
        "{V} entries by name, with their ids.",
        "Searches the data for a name and returns matching ids.",
        "Use this to turn a name into an id.",
        "Name search.",
    ),
    "save": (
        "Saves a list under a name.",
        "Stores entries under a name for later.",
        "Keeps a list so that it can be loaded again by its name.",
    ),
    "load": (
        "{V} a list that was saved under a name.",
        "Loads a saved list.",
        "Gives back the entries stored under a name.",
    ),
}
DEPRECATED = (
    "Deprecated. {D}",
    "{D} Deprecated: use the newer function instead.",
    "[deprecated] {D}",
)
EXTRA = (
    "",
    "",
    "",
    " Names must be spelled as in the data.",
    " Fast.",
    " Read-only.",
    " Results come from the knowledge base.",
    " Order is not significant.",
    " Raises an error for unknown names.",
)
NEEDS = {
    "Intersect": "what several lists have in common",
    "Unite": "what several lists hold together",
    "Subtract": "the difference of two lists",
    "Count": "the number of entries in a list",
    "Filter": "the entries of a list by their {attribute}",
    "Top": "the entries of a list with the highest or lowest {attribute}",
}
"""What no tool gives, where the set itself takes too long to describe."""
ENTRIES = ("entry", "entries")
"""What members are called where a noun would not do."""
