"""Prints the metrics of a client that has declared hostile names, in the locale of its environment:
the library's own text, without a program in between.

usage: hostile.py LIBRARY URL 0|1
"""
import ctypes
import locale
import sys

NAMES = [b'quote"', b"back\\slash", b"new\nline", b"nul\0byte", b"\xff\xfe", b"\xfe\xff",
         b"{x=\"1\"} 5\n# EOF\n", "é\u202e".encode(), b"other", b"a" * 3000]


class Source(ctypes.Structure):
    _fields_ = [("client", ctypes.c_void_p), ("label", ctypes.c_char_p)]


def main() -> None:
    locale.setlocale(locale.LC_ALL, "")
    assert locale.localeconv()["decimal_point"] == ","
    library = ctypes.CDLL(sys.argv[1])
    client, lock, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.lk_client_open(ctypes.byref(client), sys.argv[2].encode(), None) == 0
    for name in NAMES:
        assert library.lk_stats_declare(client, name, ctypes.c_size_t(len(name)), None) == 0
    for name in [*NAMES, b"rest"]:
        size = ctypes.c_size_t(len(name))
        assert library.lk_lock_new(ctypes.byref(lock), client, name, size, None) == 0
        assert library.lk_lock_acquire(lock, ctypes.c_int64(-1), None, None) == 0
        assert library.lk_lock_release(lock, None, None) == 0
        library.lk_lock_free(lock)
    source = Source(client, b'client "\xff\n')
    text = ctypes.create_string_buffer(1 << 22)
    assert library.lk_stats_write(ctypes.byref(source), ctypes.c_size_t(1), int(sys.argv[3]), text,
                                  ctypes.c_size_t(len(text)), ctypes.byref(length), None) == 0
    library.lk_client_free.restype = ctypes.c_void_p
    library.lk_client_free(client)
    sys.stdout.buffer.write(text.raw[:length.value])


if __name__ == "__main__":
    main()
