//! Reads BSON: elements of documents as slices, every length checked.

use crate::out::OUT_OF_MEMORY;

/// Why the native lane gives up; the careful path then produces the answer or the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit(pub &'static str);

pub type Fit<T> = Result<T, Misfit>;

pub const DOUBLE: u8 = 0x01;
pub const TEXT: u8 = 0x02;
pub const DOCUMENT: u8 = 0x03;
pub const ARRAY: u8 = 0x04;
pub const BINARY: u8 = 0x05;
pub const OBJECT_ID: u8 = 0x07;
pub const BOOLEAN: u8 = 0x08;
pub const DATE: u8 = 0x09;
pub const NULL: u8 = 0x0A;
pub const INT32: u8 = 0x10;
pub const TIMESTAMP: u8 = 0x11;
pub const INT64: u8 = 0x12;
pub const DECIMAL: u8 = 0x13;

const MALFORMED: Misfit = Misfit("malformed BSON");
const EMPTY_ARRAY: [u8; 5] = [5, 0, 0, 0, 0];
const MAX_DOCUMENT: usize = i32::MAX as usize;

/// A value: its type, and its bytes including the length, if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    pub kind: u8,
    pub data: &'a [u8],
}

pub const MISSING: Value<'static> = Value { kind: NULL, data: &[] };

impl<'a> Value<'a> {
    pub fn text(&self) -> Fit<&'a str> {
        parse_utf8(self.text_bytes()?)
    }

    /// The bytes of a text, which may be no valid UTF-8.
    pub fn text_bytes(&self) -> Fit<&'a [u8]> {
        let end = self.data.len().checked_sub(1).ok_or(MALFORMED)?;
        match (self.data.get(4..end), self.data.last()) {
            (Some(bytes), Some(0)) => Ok(bytes),
            _ => Err(MALFORMED),
        }
    }

    pub fn boolean(&self) -> Fit<bool> {
        match self.data {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(MALFORMED),
        }
    }

    pub fn double(&self) -> Fit<f64> {
        self.fixed().map(f64::from_le_bytes)
    }

    pub fn int32(&self) -> Fit<i32> {
        self.fixed().map(i32::from_le_bytes)
    }

    pub fn int64(&self) -> Fit<i64> {
        self.fixed().map(i64::from_le_bytes)
    }

    /// Seconds and counter of a timestamp.
    pub fn timestamp(&self) -> Fit<(u32, u32)> {
        let both = self.fixed().map(u64::from_le_bytes)?;
        Ok(((both >> 32) as u32, both as u32))
    }

    /// Low and high half of a decimal.
    pub fn decimal(&self) -> Fit<(u64, u64)> {
        let both = self.fixed().map(u128::from_le_bytes)?;
        Ok((both as u64, (both >> 64) as u64))
    }

    /// Subtype and content; kinds that the driver changes or rejects do not fit.
    pub fn binary(&self) -> Fit<(u8, &'a [u8])> {
        let (subtype, content) = self.data.get(4..).and_then(|rest| rest.split_first()).ok_or(MALFORMED)?;
        match subtype {
            2 | 255 => Err(Misfit("a binary subtype that the driver reads in its own way")),
            3 | 4 if content.len() != 16 => Err(Misfit("a UUID of another length")),
            _ => Ok((*subtype, content)),
        }
    }

    pub fn elements(&self) -> Fit<Elements<'a>> {
        Elements::of(self.data)
    }

    fn fixed<const N: usize>(&self) -> Fit<[u8; N]> {
        self.data.try_into().map_err(|_| MALFORMED)
    }
}

pub fn parse_utf8(bytes: &[u8]) -> Fit<&str> {
    std::str::from_utf8(bytes).map_err(|_| Misfit("invalid UTF-8"))
}

/// The elements of a document or array.
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    pub fn of(document: &'a [u8]) -> Fit<Self> {
        let end = document.len().checked_sub(1).ok_or(MALFORMED)?;
        match document.get(4..end) {
            Some(rest) if read_length(document)? == document.len() && document[end] == 0 => Ok(Self { rest }),
            _ => Err(MALFORMED),
        }
    }

    /// The name and value of the next element.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Fit<Option<(&'a [u8], Value<'a>)>> {
        let Some((&kind, named)) = self.rest.split_first() else {
            return Ok(None);
        };
        let end = find_nul(named)?;
        let (name, data) = (&named[..end], &named[end + 1..]);
        let size = size_of(kind, data)?;
        let value = Value { kind, data: data.get(..size).ok_or(MALFORMED)? };
        self.rest = &data[size..];
        Ok(Some((name, value)))
    }
}

fn find_nul(data: &[u8]) -> Fit<usize> {
    data.iter().position(|byte| *byte == 0).ok_or(MALFORMED)
}

fn read_length(data: &[u8]) -> Fit<usize> {
    let bytes = data.get(..4).and_then(|four| four.try_into().ok()).ok_or(MALFORMED)?;
    usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| MALFORMED)
}

fn size_of(kind: u8, data: &[u8]) -> Fit<usize> {
    let (least, more) = match kind {
        0x06 | NULL | 0x7F | 0xFF => return Ok(0),
        BOOLEAN => return Ok(1),
        INT32 => return Ok(4),
        DOUBLE | DATE | TIMESTAMP | INT64 => return Ok(8),
        OBJECT_ID => return Ok(12),
        DECIMAL => return Ok(16),
        0x0B => {
            let pattern = find_nul(data)? + 1;
            return Ok(pattern + find_nul(&data[pattern..])? + 1);
        }
        DOCUMENT | ARRAY | 0x0F => (5, 0),
        BINARY => (0, 5),
        TEXT | 0x0D | 0x0E => (1, 4),
        0x0C => (1, 16),
        _ => return Err(Misfit("an unknown BSON type")),
    };
    let length = read_length(data)?;
    if length < least {
        Err(MALFORMED)
    } else {
        Ok(length + more)
    }
}

/// The reply without its documents, and where they are in the message.
pub struct Reply {
    pub head: Vec<u8>,
    pub documents: Vec<(usize, usize)>,
}

/// Takes the reply to a read apart; a reply without a batch is all head.
pub fn split_reply(message: &[u8]) -> Fit<Reply> {
    let whole = Reply { head: Vec::new(), documents: Vec::new() };
    let Some(cursor) = find(Elements::of(message)?, DOCUMENT, &[b"cursor"])? else {
        return Ok(Reply { head: message.to_vec(), ..whole });
    };
    let Some(batch) = find(Elements::of(cursor)?, ARRAY, &[b"firstBatch", b"nextBatch"])? else {
        return Ok(Reply { head: message.to_vec(), ..whole });
    };
    let offset = |part: &[u8]| part.as_ptr() as usize - message.as_ptr() as usize;
    let mut documents = Vec::new();
    let mut elements = Elements::of(batch)?;
    while let Some((_, value)) = elements.next()? {
        if value.kind != DOCUMENT {
            return Err(Misfit("a batch of something else than documents"));
        }
        let start = offset(value.data);
        documents.push((start, start + value.data.len()));
    }
    let start = offset(batch);
    Ok(Reply { head: write_head(message, start)?, documents })
}

/// Encodes a reply with an empty batch.
fn write_head(message: &[u8], batch: usize) -> Fit<Vec<u8>> {
    let mut head = vec![0; 4];
    let mut elements = Elements::of(message)?;
    while let Some((name, value)) = elements.next()? {
        let start = (value.data.as_ptr() as usize).wrapping_sub(message.as_ptr() as usize);
        if start == batch {
            push_element(&mut head, ARRAY, name, &EMPTY_ARRAY);
        } else if (start..start + value.data.len()).contains(&batch) {
            push_element(&mut head, value.kind, name, &write_head(value.data, batch - start)?);
        } else {
            push_element(&mut head, value.kind, name, value.data);
        }
    }
    head.push(0);
    let length = head.len() as i32;
    head[..4].copy_from_slice(&length.to_le_bytes());
    Ok(head)
}

fn push_element(data: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    data.push(kind);
    data.extend_from_slice(name);
    data.push(0);
    data.extend_from_slice(value);
}

/// The only value of one of these names; what the driver would read of several is its matter.
fn find<'a>(mut elements: Elements<'a>, kind: u8, names: &[&[u8]]) -> Fit<Option<&'a [u8]>> {
    let mut found = None;
    while let Some((name, value)) = elements.next()? {
        if value.kind == kind && names.contains(&name) && found.replace(value.data).is_some() {
            return Err(Misfit("a reply with a name that occurs twice"));
        }
    }
    Ok(found)
}

/// Encodes `{"v": [values]}`: an array whose keys are empty, which the driver does not read.
pub fn join_values(values: &[Value]) -> Fit<Vec<u8>> {
    let size: usize = values.iter().map(|value| value.data.len() + 2).sum();
    if size + 13 > MAX_DOCUMENT {
        return Err(Misfit("too many values"));
    }
    let mut data = Vec::new();
    data.try_reserve_exact(size + 13).map_err(|_| OUT_OF_MEMORY)?;
    data.extend_from_slice(&((size + 13) as i32).to_le_bytes());
    data.extend_from_slice(&[ARRAY, b'v', 0]);
    data.extend_from_slice(&((size + 5) as i32).to_le_bytes());
    for value in values {
        data.extend_from_slice(&[value.kind, 0]);
        data.extend_from_slice(value.data);
    }
    data.extend_from_slice(&[0, 0]);
    Ok(data)
}

/// Encodes a document with the fields of these names only.
pub fn keep_fields(document: &[u8], names: &[String]) -> Fit<Vec<u8>> {
    let mut data = Vec::new();
    data.try_reserve_exact(document.len()).map_err(|_| OUT_OF_MEMORY)?;
    data.extend_from_slice(&[0; 4]);
    let mut elements = Elements::of(document)?;
    while let Some((name, value)) = elements.next()? {
        if names.iter().any(|one| one.as_bytes() == name) {
            push_element(&mut data, value.kind, name, value.data);
        }
    }
    data.push(0);
    let length = data.len() as i32;
    data[..4].copy_from_slice(&length.to_le_bytes());
    Ok(data)
}

/// The last value of this name, as the driver reads it.
pub fn find_field<'a>(document: &'a [u8], wanted: &[u8]) -> Fit<Option<Value<'a>>> {
    let mut found = None;
    let mut elements = Elements::of(document)?;
    while let Some((name, value)) = elements.next()? {
        if name == wanted {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The value of this name; the database compares the first of several, the driver reads the last.
pub fn find_single<'a>(document: &'a [u8], wanted: &[u8]) -> Fit<Option<Value<'a>>> {
    let mut found = None;
    let mut elements = Elements::of(document)?;
    while let Some((name, value)) = elements.next()? {
        if name == wanted && found.replace(value).is_some() {
            return Err(Misfit("a key that occurs twice"));
        }
    }
    Ok(found)
}
