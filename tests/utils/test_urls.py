"""What is an address, and that nothing secret of it is shown."""

import pytest

from delira.utils.urls import is_url, named_by, secrets_in, shown, without_secrets


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("s3://bucket/x.npy", True),
        ("https://host/x", True),
        ("zip://a.npy::s3://bucket/x.zip", True),
        ("simplecache::s3://bucket/x.npy", True),
        ("/data/x.npy", False),
        ("data::x.npy", False),
        ("C:\\data\\x.npy", False),
        ("c://x", False),
        (3, False),
    ],
)
def test_what_is_an_address(text, is_one):
    assert is_url(text) is is_one


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("s3://bucket/x.npy", "s3://bucket/x.npy"),
        ("https://user:geheim@host:80/x", "https://host:80/x"),
        ("ftp://user:ge/heim@host/x", "ftp://host/x"),
        ("https://host/x.npy?X-Amz-Signature=geheim&a=b", "https://host/x.npy?…"),
        ("https://host/x#geheim", "https://host/x"),
        ("zip://a.npy::https://u:geheim@host/x.zip?sig=geheim", "zip://a.npy::https://host/x.zip?…"),
        ("s3://bucket/a@b.npy", "s3://bucket/a@b.npy"),
        ("/data/a?b", "/data/a?b"),
    ],
)
def test_what_is_shown(url, public):
    assert shown(url) == public
    assert "geheim" not in named_by(url)
    assert without_secrets(f"error at {url!r}: none", *secrets_in(url)) == f"error at {public!r}: none"


def test_a_name_tells_queries_apart_and_not_signatures():
    first = named_by("https://host/get?id=1&X-Amz-Signature=one&Expires=1")
    assert first == named_by("https://other:pw@host/get?id=1&X-Amz-Signature=two&Expires=2")
    assert first != named_by("https://host/get?id=2&X-Amz-Signature=one&Expires=1")


def test_secrets_are_taken_out_of_what_others_say():
    assert without_secrets("key abc123 refused, abc", "abc", "abc123", "") == "key *** refused, ***"
