"""Definitions of tools and arguments of calls, against a whole validator of JSON Schema."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.synthesis.schema import definition_problem, value_problem

VALUES = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 1.5, -2.5]),
    st.sampled_from(["", "a", "b"]),
)
WORDS = st.sampled_from(["", "a", "b"])


def numbers(kind):
    limits = st.fixed_dictionaries(
        {"type": st.just(kind)},
        optional={"minimum": st.integers(-2, 0), "maximum": st.integers(0, 2)},
    )
    enums = st.fixed_dictionaries(
        {"type": st.just(kind), "enum": st.lists(st.integers(-3, 3), min_size=1)}
    )
    return limits | enums


SCALARS = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "string"}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(WORDS, min_size=1)}),
    numbers("integer"),
    numbers("number"),
)
ARRAYS = st.fixed_dictionaries(
    {"type": st.just("array"), "items": SCALARS},
    optional={
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(1, 3),
        "uniqueItems": st.booleans(),
    },
)
PROPERTIES = st.dictionaries(st.sampled_from("xyz"), SCALARS | ARRAYS, max_size=3)


@st.composite
def objects(draw):
    properties = draw(PROPERTIES)
    required = [name for name in properties if draw(st.booleans())]
    schema = {"type": "object", "properties": properties, "required": required}
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.booleans())
    return schema


ANY = st.dictionaries(st.sampled_from("xyzw"), VALUES | st.lists(VALUES, max_size=4), max_size=4)


@given(objects(), ANY)
def test_arguments_are_judged_as_by_a_whole_validator(schema, arguments):
    """Every schema of the part, any arguments: the same verdict as jsonschema (2020-12)."""
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    assert definition_problem(tool) is None

    expected = jsonschema.Draft202012Validator(schema).is_valid(arguments)

    assert (value_problem(schema, arguments) is None) == expected


PARAMETERS = {
    "type": "object",
    "properties": {"n": {"type": "integer", "default": 3}},
    "required": ["n"],
}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "two words"}, "no name"),
        ({"description": " "}, "no description"),
        ({"parameters": {"type": "array"}}, "no object"),
        ({"parameters": {**PARAMETERS, "required": ["m"]}}, "not there: m"),
        ({"parameters": {**PARAMETERS, "properties": {"n": {"type": "int"}}}}, "type 'int'"),
        (
            {"parameters": {**PARAMETERS, "properties": {"n": {"type": "string", "default": 1}}}},
            "default 1",
        ),
        (
            {"parameters": {**PARAMETERS, "properties": {"n": {"type": "string", "enum": [1]}}}},
            "no string",
        ),
        ({"parameters": {**PARAMETERS, "oneOf": []}}, "with oneOf"),
    ],
)
def test_bad_definitions_are_named(changes, problem):
    """A definition that is wrong, or beyond the part of JSON Schema, is refused with its reason."""
    function = {"name": "f", "description": "d", "parameters": PARAMETERS, **changes}

    found = definition_problem({"type": "function", "function": function})

    assert found is not None
    assert problem in found
