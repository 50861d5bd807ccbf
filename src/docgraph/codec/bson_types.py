"""BSON types of values, for layers that do not import the driver.

A stored value is one of these or a plain `dict`, `list`, `str`, `bool`, `None`, `float`, `int` (32
bits), `bytes` (binary of subtype 0) or naive UTC `datetime`.
"""

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

__all__ = [
    "Binary",
    "Code",
    "DBRef",
    "DatetimeMS",
    "Decimal128",
    "Int64",
    "MaxKey",
    "MinKey",
    "ObjectId",
    "Regex",
    "Timestamp",
]
