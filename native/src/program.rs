//! Output programs: which values of a document are written, as which JSON.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bson::*;
use crate::json::*;
use crate::out::Out;
use crate::values::*;

const FEW: usize = 16; // names that are compared one by one
const EXACT_INTEGERS: f64 = (1_i64 << 53) as f64;

pub enum Program {
    /// Chosen fields of a document.
    Fields(Object, Mode),
    /// The whole document, without its hidden properties.
    Whole(Vec<Box<[u8]>>, Mode),
    /// The program for the text of a field, such as the kind of a document.
    Choice(Box<[u8]>, HashMap<Box<[u8]>, Arc<Program>>),
}

/// The fields of an object, and the names of the properties that they begin with.
#[derive(Default)]
pub struct Object {
    fields: Vec<Field>,
    names: Vec<Box<[u8]>>,
    places: HashMap<Box<[u8]>, usize>, // only of many names
}

pub struct Field {
    prefix: Vec<u8>, // `{"key":` or `,"key":`
    source: Source,
}

pub enum Source {
    /// JSON that is the same for all documents.
    Constant(Vec<u8>),
    /// JSON from a column, one for each document.
    Slot(usize),
    /// The number of a name, the rest of the path, and the declared type.
    Stored(usize, Vec<Step>, Type),
}

pub struct Step {
    name: Box<[u8]>,
    index: Option<usize>, // of an array
}

pub enum Type {
    NonNull(Box<Type>),
    List(Box<Type>),
    Object(Object),
    Enum(EnumNames),
    Scalar(Scalar),
}

/// The JSON of the name of each stored value.
#[derive(Default)]
pub struct EnumNames {
    pub texts: HashMap<Box<[u8]>, Vec<u8>>,
    pub numbers: HashMap<i64, Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    String,
    Int,
    Float,
    Boolean,
    Id,
    Long,
    Decimal128,
    ObjectId,
    Timestamp,
    DateTime,
    Uuid,
    Regex,
    BsonDocument,
}

impl Scalar {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "String" => Self::String,
            "Int" => Self::Int,
            "Float" => Self::Float,
            "Boolean" => Self::Boolean,
            "ID" => Self::Id,
            "Long" => Self::Long,
            "Decimal128" => Self::Decimal128,
            "ObjectId" => Self::ObjectId,
            "Timestamp" => Self::Timestamp,
            "DateTime" => Self::DateTime,
            "UUID" => Self::Uuid,
            "Regex" => Self::Regex,
            "BsonDocument" => Self::BsonDocument,
            _ => return None,
        })
    }
}

impl Step {
    /// None for digits of other scripts, which Python takes for an index.
    pub fn parse(text: &str) -> Option<Self> {
        let is_index = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_index && text.chars().any(|one| !one.is_ascii() && one.is_numeric()) {
            return None;
        }
        let index = is_index.then(|| text.parse().unwrap_or(usize::MAX));
        Some(Self { name: text.as_bytes().into(), index })
    }
}

impl Object {
    pub fn add_constant(&mut self, key: &str, json: Vec<u8>) {
        self.add(key, Source::Constant(json));
    }

    pub fn add_slot(&mut self, key: &str, slot: usize) {
        self.add(key, Source::Slot(slot));
    }

    pub fn add_stored(&mut self, key: &str, mut path: Vec<Step>, type_: Type) {
        let first = path.remove(0).name;
        let place = self.find(&first, 0).unwrap_or_else(|| {
            self.names.push(first);
            self.names.len() - 1
        });
        self.add(key, Source::Stored(place, path, type_));
        if self.names.len() > FEW {
            self.places = self.names.iter().cloned().zip(0..).collect();
        }
    }

    fn add(&mut self, key: &str, source: Source) {
        let mut prefix = Out::default();
        prefix.push(if self.fields.is_empty() { b'{' } else { b',' });
        write_string(&mut prefix, key);
        prefix.push(b':');
        self.fields.push(Field { prefix: prefix.into_bytes(), source });
    }

    /// The number of a name; documents have their properties in the same order, mostly.
    fn find(&self, name: &[u8], expected: usize) -> Option<usize> {
        if self.names.len() > FEW {
            return self.places.get(name).copied();
        }
        let (before, after) = self.names.split_at(expected.min(self.names.len()));
        let found = after.iter().position(|one| **one == *name).map(|place| place + before.len());
        found.or_else(|| before.iter().position(|one| **one == *name))
    }

    pub fn count_slots(&self) -> usize {
        let slots = self.fields.iter().map(|field| match &field.source {
            Source::Slot(slot) => slot + 1,
            Source::Stored(_, _, type_) => type_.count_slots(),
            Source::Constant(_) => 0,
        });
        slots.max().unwrap_or(0)
    }
}

impl Type {
    fn count_slots(&self) -> usize {
        match self {
            Type::NonNull(inner) | Type::List(inner) => inner.count_slots(),
            Type::Object(object) => object.count_slots(),
            _ => 0,
        }
    }
}

impl Program {
    pub fn count_slots(&self) -> usize {
        match self {
            Program::Fields(object, _) => object.count_slots(),
            Program::Whole(..) | Program::Choice(..) => 0,
        }
    }
}

/// Writes documents by a program.
pub struct Writer<'a> {
    pub out: Out,
    max_bytes: usize,
    mode: Mode,
    columns: &'a [Vec<&'a [u8]>],
    found: Vec<Option<Value<'a>>>, // of the objects that are being written
    index: usize,
}

impl<'a> Writer<'a> {
    pub fn new(columns: &'a [Vec<&'a [u8]>], capacity: usize, max_bytes: usize) -> Self {
        let out = Out::with_capacity(capacity);
        Self { out, max_bytes, mode: Mode::Standard, columns, found: Vec::new(), index: 0 }
    }

    pub fn write(&mut self, program: &Program, document: &'a [u8], index: usize) -> Fit<()> {
        self.index = index;
        match program {
            Program::Fields(object, mode) => {
                self.mode = *mode;
                self.write_fields(object, document, 0)
            }
            Program::Whole(hidden, mode) => {
                write_object(&mut self.out, Elements::of(document)?, *mode, hidden, 0)?;
                self.check_size(0)
            }
            Program::Choice(name, programs) => {
                let chosen = match find_field(document, name)? {
                    Some(value) if value.kind == TEXT => programs.get(value.text()?.as_bytes()),
                    _ => None,
                };
                self.write(chosen.ok_or(Misfit("no program for this text"))?, document, index)
            }
        }
    }

    fn write_fields(&mut self, object: &Object, document: &'a [u8], depth: usize) -> Fit<()> {
        check_depth(depth)?;
        let base = self.found.len();
        self.found.resize(base + object.names.len(), None);
        let mut elements = Elements::of(document)?;
        let mut expected = 0;
        while let Some((name, value)) = elements.next()? {
            check_reference(name)?;
            if let Some(place) = object.find(name, expected) {
                self.found[base + place] = Some(value); // of duplicate names, the last counts
                expected = place + 1;
            }
        }
        for field in &object.fields {
            self.out.extend_from_slice(&field.prefix);
            match &field.source {
                Source::Constant(json) => self.out.extend_from_slice(json),
                Source::Slot(slot) => self.write_slot(*slot)?,
                Source::Stored(place, path, type_) => {
                    let value = self.found[base + place].unwrap_or(MISSING);
                    self.write_path(path, value, type_, depth + 1)?;
                }
            }
            self.check_size(0)?;
        }
        self.found.truncate(base);
        self.out.extend_from_slice(if object.fields.is_empty() { b"{}" } else { b"}" });
        Ok(())
    }

    fn write_slot(&mut self, slot: usize) -> Fit<()> {
        let json = self.columns.get(slot).and_then(|column| column.get(self.index));
        let json = json.ok_or(Misfit("a column is missing"))?;
        self.check_size(json.len())?;
        self.out.extend_from_slice(json);
        Ok(())
    }

    /// Follows the rest of a path: an index selects an element, a name is read of all elements.
    fn write_path(&mut self, path: &[Step], value: Value<'a>, type_: &Type, depth: usize) -> Fit<()> {
        check_depth(depth)?;
        let Some((step, rest)) = path.split_first() else {
            return self.write_typed(type_, value, depth);
        };
        match next_value(step, value)? {
            Some(inner) => self.write_path(rest, inner, type_, depth + 1),
            None => {
                let type_ = if let Type::NonNull(inner) = type_ { inner } else { type_ };
                let Type::List(items) = type_ else {
                    return Err(Misfit("a list where one value is declared"));
                };
                self.write_items(value, |writer, item| writer.write_path(path, item, items, depth + 1))
            }
        }
    }

    fn write_items(
        &mut self,
        array: Value<'a>,
        mut write: impl FnMut(&mut Self, Value<'a>) -> Fit<()>,
    ) -> Fit<()> {
        let mut elements = array.elements()?;
        let mut mark = b'[';
        while let Some((_, item)) = elements.next()? {
            self.out.push(mark);
            mark = b',';
            write(self, item)?;
        }
        self.out.extend_from_slice(if mark == b'[' { b"[]" } else { b"]" });
        self.check_size(0)
    }

    fn write_typed(&mut self, type_: &Type, value: Value<'a>, depth: usize) -> Fit<()> {
        match type_ {
            Type::NonNull(_) if value.kind == NULL => Err(Misfit("null where none is allowed")),
            Type::NonNull(inner) => self.write_typed(inner, value, depth),
            _ if value.kind == NULL => {
                self.out.extend_from_slice(b"null");
                Ok(())
            }
            Type::List(items) if value.kind == ARRAY => {
                self.write_items(value, |writer, item| writer.write_typed(items, item, depth + 1))
            }
            Type::Object(object) if value.kind == DOCUMENT => {
                self.write_fields(object, value.data, depth + 1)
            }
            Type::Enum(names) => self.write_enum(names, value),
            Type::Scalar(scalar) => write_scalar(&mut self.out, *scalar, value, self.mode, depth),
            _ => Err(Misfit("no list or no object")),
        }
    }

    fn write_enum(&mut self, names: &EnumNames, value: Value) -> Fit<()> {
        let name = match value.kind {
            TEXT => names.texts.get(value.text()?.as_bytes()),
            INT32 | INT64 => names.numbers.get(&read_integer(value)?),
            _ => None,
        };
        self.out.extend_from_slice(name.ok_or(Misfit("an enum without this value"))?);
        Ok(())
    }

    fn check_size(&self, more: usize) -> Fit<()> {
        if self.out.len() + more > self.max_bytes {
            return Err(Misfit("too large"));
        }
        self.out.check()
    }
}

/// The value behind one step; None if the step is a name and the value an array.
fn next_value<'a>(step: &Step, value: Value<'a>) -> Fit<Option<Value<'a>>> {
    let mut found = MISSING;
    match (value.kind, step.index) {
        (DOCUMENT, _) => {
            let mut elements = value.elements()?;
            while let Some((name, value)) = elements.next()? {
                check_reference(name)?;
                if *name == *step.name {
                    found = value;
                }
            }
        }
        (ARRAY, None) => return Ok(None),
        (ARRAY, Some(index)) => {
            let mut elements = value.elements()?;
            let mut place = 0;
            while let Some((_, value)) = elements.next()? {
                if place == index {
                    found = value;
                }
                place += 1;
            }
        }
        _ => {}
    }
    Ok(Some(found))
}

/// The value at a path of a document; null if it is missing.
pub fn find_value<'a>(document: &'a [u8], path: &[Step]) -> Fit<Value<'a>> {
    let mut value = Value { kind: DOCUMENT, data: document };
    for step in path {
        value = next_value(step, value)?.ok_or(Misfit("a path through an array"))?;
    }
    Ok(value)
}

fn write_scalar(out: &mut Out, scalar: Scalar, value: Value, mode: Mode, depth: usize) -> Fit<()> {
    match (scalar, value.kind) {
        (Scalar::String | Scalar::Id, TEXT) => write_text(out, value.text_bytes()?)?,
        (Scalar::String | Scalar::Id, OBJECT_ID) => {
            wrap(out, "", true, |out| Ok(write_hex(out, value.data)))?;
        }
        (Scalar::Id, _) => wrap(out, "", true, |out| write_id(out, value))?,
        (Scalar::Int, _) => {
            let number = i32::try_from(read_integer(value)?);
            write_int(out, number.map_err(|_| Misfit("beyond 32 bits"))?.into());
        }
        (Scalar::Float, _) => write_float(out, read_float(value)?, mode)?,
        (Scalar::Boolean, BOOLEAN)
        | (Scalar::ObjectId, OBJECT_ID)
        | (Scalar::Timestamp, TIMESTAMP)
        | (Scalar::DateTime, DATE)
        | (Scalar::Decimal128, DECIMAL)
        | (Scalar::BsonDocument, DOCUMENT) => write_whole(out, value, mode, depth)?,
        (Scalar::Long, _) => write_long(out, read_integer(value)?, mode)?,
        (Scalar::Decimal128, INT32 | INT64) => {
            let number = read_integer(value)?;
            wrap(out, "$numberDecimal", mode == Mode::GraphqlPlain, |out| Ok(write_int(out, number)))?;
        }
        (Scalar::Uuid, BINARY) if matches!(value.binary()?.0, 3 | 4) => write_binary(out, value, mode)?,
        _ => return Err(Misfit("a value of another type")),
    }
    Ok(())
}

/// The text of a value under `ID`, without quotes; values that are rare as ids do not fit.
fn write_id(out: &mut Out, value: Value) -> Fit<()> {
    match value.kind {
        INT32 | INT64 => write_int(out, read_integer(value)?),
        DOUBLE => write_repr(out, value.double()?),
        BOOLEAN => out.extend_from_slice(if value.boolean()? { b"true" } else { b"false" }),
        DATE => write_date(out, value.int64()?)?,
        DECIMAL => {
            let (low, high) = value.decimal()?;
            write_decimal(out, low, high)?;
        }
        BINARY => match value.binary()? {
            (4, content) => write_uuid(out, content),
            _ => return Err(Misfit("binary data as an id")),
        },
        _ => return Err(Misfit("a value of another type")),
    }
    Ok(())
}

/// A whole number, also one that is stored as a double without a fraction.
fn read_integer(value: Value) -> Fit<i64> {
    match value.kind {
        INT32 => value.int32().map(i64::from),
        INT64 => value.int64(),
        DOUBLE => {
            let number = value.double()?;
            let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_INTEGERS;
            if is_whole {
                Ok(number as i64)
            } else {
                Err(Misfit("no whole number"))
            }
        }
        _ => Err(Misfit("a value of another type")),
    }
}

/// A double, or an integer that a double represents exactly.
fn read_float(value: Value) -> Fit<f64> {
    match value.kind {
        DOUBLE => value.double(),
        INT32 | INT64 => {
            let number = read_integer(value)?;
            let double = number as f64;
            if double as i128 == i128::from(number) {
                Ok(double)
            } else {
                Err(Misfit("a long without exact double"))
            }
        }
        _ => Err(Misfit("a value of another type")),
    }
}
