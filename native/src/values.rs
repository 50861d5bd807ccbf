//! Writes whole values in a JSON mode, as `codec/encode.py` does.

use std::collections::HashSet;

use crate::bson::*;
use crate::json::*;
use crate::out::Out;

/// MongoDB stops at 200 levels, orjson at 254.
pub const MAX_DEPTH: usize = 200;
const FEW: usize = 16; // names that are compared one by one
const MAX_SAFE: i64 = (1 << 53) - 1;

/// How values without a JSON equivalent are written; the names are those of `JsonMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Strict,
    Extended,
    Relaxed,
    Graphql,
    GraphqlCanonical,
    GraphqlRelaxed,
    GraphqlPlain,
}

use Mode::*;

impl Mode {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "standard" => Standard,
            "strict" => Strict,
            "extended" => Extended,
            "relaxed" => Relaxed,
            "graphql" => Graphql,
            "graphql-canonical" => GraphqlCanonical,
            "graphql-relaxed" => GraphqlRelaxed,
            "graphql-plain" => GraphqlPlain,
            _ => return None,
        })
    }
}

/// Writes `{"$name":"…"}`, or only the text in quotes where `is_plain`.
pub fn wrap(out: &mut Out, name: &str, is_plain: bool, write: impl FnOnce(&mut Out) -> Fit<()>) -> Fit<()> {
    if !is_plain {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    }
    out.push(b'"');
    write(out)?;
    out.push(b'"');
    if !is_plain {
        out.push(b'}');
    }
    Ok(())
}

pub fn write_whole(out: &mut Out, value: Value, mode: Mode, depth: usize) -> Fit<()> {
    match value.kind {
        DOUBLE => write_float(out, value.double()?, mode)?,
        TEXT => write_text(out, value.text_bytes()?)?,
        DOCUMENT => write_object(out, value.elements()?, mode, &[], depth)?,
        ARRAY => write_array(out, value.elements()?, mode, depth)?,
        BINARY => write_binary(out, value, mode)?,
        OBJECT_ID => write_object_id(out, value, mode)?,
        BOOLEAN => out.extend_from_slice(if value.boolean()? { b"true" } else { b"false" }),
        DATE => write_moment(out, value.int64()?, mode)?,
        NULL => out.extend_from_slice(b"null"),
        INT32 if mode == Extended => {
            let number = value.int32()?;
            wrap(out, "$numberInt", false, |out| Ok(write_int(out, number.into())))?;
        }
        INT32 => write_int(out, value.int32()?.into()),
        TIMESTAMP => write_timestamp(out, value, mode)?,
        INT64 => write_long(out, value.int64()?, mode)?,
        DECIMAL => {
            let (low, high) = value.decimal()?;
            wrap(out, "$numberDecimal", mode == GraphqlPlain, |out| write_decimal(out, low, high))?;
        }
        _ => return Err(Misfit("a rare BSON type")),
    }
    Ok(())
}

/// A document without its hidden properties.
pub fn write_object(
    out: &mut Out,
    mut elements: Elements,
    mode: Mode,
    hidden: &[Box<[u8]>],
    depth: usize,
) -> Fit<()> {
    check_depth(depth)?;
    let mut names = Names::default();
    let mut mark = b'{';
    while let Some((name, value)) = elements.next()? {
        names.add(name)?;
        if hidden.iter().any(|one| **one == *name) {
            continue;
        }
        out.push(mark);
        mark = b',';
        write_text(out, name)?;
        out.push(b':');
        write_whole(out, value, mode, depth + 1)?;
    }
    out.extend_from_slice(if mark == b'{' { b"{}" } else { b"}" });
    Ok(())
}

fn write_array(out: &mut Out, mut elements: Elements, mode: Mode, depth: usize) -> Fit<()> {
    check_depth(depth)?;
    let mut mark = b'[';
    while let Some((_, value)) = elements.next()? {
        out.push(mark);
        mark = b',';
        write_whole(out, value, mode, depth + 1)?;
    }
    out.extend_from_slice(if mark == b'[' { b"[]" } else { b"]" });
    Ok(())
}

pub fn check_depth(depth: usize) -> Fit<()> {
    if depth > MAX_DEPTH {
        Err(Misfit("nested too deep"))
    } else {
        Ok(())
    }
}

/// Rejects what the driver changes: a duplicate name, of which the last counts, and a reference.
pub fn check_reference(name: &[u8]) -> Fit<()> {
    if name == b"$ref" {
        Err(Misfit("a reference"))
    } else {
        Ok(())
    }
}

#[derive(Default)]
struct Names<'a> {
    mask: u64, // of a hash, so that most names are compared with none
    few: Vec<&'a [u8]>,
    many: HashSet<&'a [u8]>,
}

impl<'a> Names<'a> {
    fn add(&mut self, name: &'a [u8]) -> Fit<()> {
        check_reference(name)?;
        let is_new = if self.few.len() < FEW {
            let ends = name.first().zip(name.last()).map_or(0, |(a, b)| *a as usize * 5 + *b as usize * 3);
            let bit = 1_u64 << ((ends + name.len()) & 63);
            let is_new = self.mask & bit == 0 || !self.few.contains(&name);
            self.mask |= bit;
            self.few.push(name);
            is_new
        } else {
            if self.many.is_empty() {
                self.many.extend(&self.few);
            }
            self.many.insert(name)
        };
        if is_new {
            Ok(())
        } else {
            Err(Misfit("a duplicate name"))
        }
    }
}

pub fn write_float(out: &mut Out, number: f64, mode: Mode) -> Fit<()> {
    if number.is_finite() && !matches!(mode, Extended | GraphqlCanonical) {
        return write_double(out, number);
    }
    wrap(out, "$numberDouble", mode == GraphqlPlain, |out| Ok(write_repr(out, number)))
}

pub fn write_long(out: &mut Out, number: i64, mode: Mode) -> Fit<()> {
    match mode {
        Standard | Relaxed | GraphqlRelaxed => write_int(out, number),
        GraphqlPlain if number.abs_diff(0) <= MAX_SAFE as u64 => write_int(out, number),
        _ => wrap(out, "$numberLong", mode == GraphqlPlain, |out| Ok(write_int(out, number)))?,
    }
    Ok(())
}

pub fn write_object_id(out: &mut Out, value: Value, mode: Mode) -> Fit<()> {
    wrap(out, "$oid", mode == GraphqlPlain, |out| Ok(write_hex(out, value.data)))
}

pub fn write_timestamp(out: &mut Out, value: Value, mode: Mode) -> Fit<()> {
    let (seconds, counter) = value.timestamp()?;
    if mode == GraphqlPlain {
        out.extend_from_slice(format!("\"{seconds}.{counter}\"").as_bytes());
    } else {
        let text = format!("{{\"$timestamp\":{{\"t\":{seconds},\"i\":{counter}}}}}");
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

pub fn write_moment(out: &mut Out, millis: i64, mode: Mode) -> Fit<()> {
    match mode {
        GraphqlPlain => return wrap(out, "", true, |out| write_date(out, millis)),
        Relaxed if millis >= 0 && is_near(millis) => {
            return wrap(out, "$date", false, |out| write_short_date(out, millis));
        }
        _ => out.extend_from_slice(b"{\"$date\":"),
    }
    if matches!(mode, Relaxed | Extended) {
        wrap(out, "$numberLong", false, |out| Ok(write_int(out, millis)))?;
    } else {
        write_int(out, millis);
    }
    out.push(b'}');
    Ok(())
}

pub fn write_binary(out: &mut Out, value: Value, mode: Mode) -> Fit<()> {
    let (subtype, content) = value.binary()?;
    if matches!(mode, Graphql | GraphqlRelaxed | GraphqlPlain) {
        match subtype {
            4 => return wrap(out, "", true, |out| Ok(write_uuid(out, content))),
            3 => return Err(Misfit("a UUID whose byte order is configured")),
            _ if mode == GraphqlPlain => return wrap(out, "", true, |out| Ok(write_base64(out, content))),
            _ => {}
        }
    }
    if mode == Strict {
        out.extend_from_slice(b"{\"$binary\":\"");
        write_base64(out, content);
        out.extend_from_slice(format!("\",\"$type\":\"{subtype:02X}\"}}").as_bytes());
    } else {
        out.extend_from_slice(b"{\"$binary\":{\"base64\":\"");
        write_base64(out, content);
        out.extend_from_slice(format!("\",\"subType\":\"{subtype:02x}\"}}}}").as_bytes());
    }
    Ok(())
}
