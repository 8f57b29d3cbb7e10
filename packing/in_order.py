"""Packers that take documents in a given order: open rows with best fit, and join-and-cut."""

import numba
import numpy as np

_NO_ROOM = 1 << 62


@numba.njit(cache=True, nogil=True)
def open_row_fit(length, seq_len, max_docs, open_rows, row_of):  # type: ignore[no-untyped-def]
    """Put each document into the open row with the least room that holds it.

    When no open row holds it, the fullest is closed and a new one takes its place.

    Args:
        length: documents in the order they are taken, int32, each from 1 to ``seq_len``.
        seq_len: room of a new row.
        max_docs: pieces at which a row closes.
        open_rows: rows open at a time.
        row_of: receives the row of each document, int64; rows count as they are opened.

    Returns:
        The number of rows opened.
    """
    room = np.full(open_rows, -1, dtype=np.int64)  # -1: closed, taken first for a new row
    pieces = np.zeros(open_rows, dtype=np.int64)
    row = np.zeros(open_rows, dtype=np.int64)
    rows = 0
    for i in range(len(length)):
        best = _NO_ROOM
        # Room left over and place in one number: the minimum is the best fit, the lowest place.
        for place in range(open_rows):
            over = room[place] - length[i]
            best = min(best, (over << 16) | place if over >= 0 else _NO_ROOM)
        at = best & 0xFFFF
        if best == _NO_ROOM:
            at = int(np.argmin(room))
            room[at] = seq_len
            pieces[at] = 0
            row[at] = rows
            rows += 1
        room[at] -= length[i]
        pieces[at] += 1
        if pieces[at] == max_docs:
            room[at] = -1
        row_of[i] = row[at]
    return rows


@numba.njit(cache=True, nogil=True)
def join_and_cut(length, seq_len, max_docs, row, document, start, piece):  # type: ignore[no-untyped-def]
    """Lay documents one behind the other and cut at row ends.

    Args:
        length: documents in the order they are taken, int32, at least 1.
        seq_len: tokens of a row.
        max_docs: pieces at which a row closes, full or not.
        row: receives the row of each piece; like the next three long enough for all pieces.
        document: receives the place of its document in ``length``.
        start: receives its first token within the document.
        piece: receives its tokens.

    Returns:
        The number of pieces.
    """
    at = 0
    r = 0
    room = seq_len
    in_row = 0
    for i in range(len(length)):
        done = 0
        while done < length[i]:
            if room == 0 or in_row == max_docs:
                r += 1
                room = seq_len
                in_row = 0
            take = min(room, length[i] - done)
            row[at] = r
            document[at] = i
            start[at] = done
            piece[at] = take
            at += 1
            done += take
            room -= take
            in_row += 1
    return at
