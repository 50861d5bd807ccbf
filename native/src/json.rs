//! Writes JSON texts of single values, byte for byte as the Python lane does.

use crate::bson::{parse_utf8, Fit, Misfit};
use crate::out::Out;

const CHUNK: usize = 16;
const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DAY: i64 = 86_400_000;
const FIRST_MILLIS: i64 = -62_135_596_800_000; // 0001-01-01T00:00:00.000Z
const LAST_MILLIS: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999Z

// Decimal128: sign, 14 bits of exponent, 113 bits of coefficient.
const EXPONENT_BIAS: i64 = 6176;
const COEFFICIENT_MASK: u64 = (1 << 49) - 1;
const MAX_DIGITS: usize = 34;
const FEWEST_PLACES: i64 = -5; // smaller numbers are written with an exponent

/// The second byte of the escape of each byte: 0 for none, `u` for `\u00..`.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0A] = b'n';
    table[0x0C] = b'f';
    table[0x0D] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// A text of the database, which may be no valid UTF-8.
pub fn write_text(out: &mut Out, bytes: &[u8]) -> Fit<()> {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let (plain, rest) = bytes.split_at(count_plain(bytes));
    out.extend_from_slice(plain);
    if !rest.is_empty() {
        write_escaped(out, parse_utf8(rest)?);
    }
    out.push(b'"');
    Ok(())
}

pub fn write_string(out: &mut Out, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

fn write_escaped(out: &mut Out, text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let place = find_escape(rest);
        out.extend_from_slice(&rest[..place]);
        let Some(byte) = rest.get(place) else { break };
        let escape = ESCAPES[*byte as usize];
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(b"00");
            write_hex(out, &[*byte]);
        }
        rest = &rest[place + 1..];
    }
}

/// How many bytes at the start are ASCII without escapes; the compiler checks a chunk in a few instructions.
fn count_plain(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| (*byte as i8 >= 0x20) & (*byte != b'"') & (*byte != b'\\');
    let are_plain = |chunk: &[u8]| chunk.iter().fold(true, |plain, byte| plain & is_plain(byte));
    let mut start = 0;
    while let Some(chunk) = bytes.get(start..start + CHUNK) {
        if !are_plain(chunk) {
            break;
        }
        start += CHUNK;
    }
    // The last bytes of a longer text as a whole chunk, of which some were checked before.
    if start > 0 && start + CHUNK > bytes.len() && are_plain(&bytes[bytes.len() - CHUNK..]) {
        return bytes.len();
    }
    let rest = &bytes[start..];
    start + rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len())
}

/// Where the first byte is that needs an escape.
fn find_escape(bytes: &[u8]) -> usize {
    let is_plain = |chunk: &&[u8]| {
        chunk.iter().fold(true, |plain, byte| plain & (*byte >= 0x20) & (*byte != b'"') & (*byte != b'\\'))
    };
    let start = bytes.chunks_exact(CHUNK).take_while(is_plain).count() * CHUNK;
    let rest = &bytes[start..];
    start + rest.iter().position(|byte| ESCAPES[*byte as usize] != 0).unwrap_or(rest.len())
}

pub fn write_int(out: &mut Out, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A finite double that needs no exponent; versions of orjson differ in how they write exponents.
pub fn write_double(out: &mut Out, number: f64) -> Fit<()> {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        return Err(Misfit("a double that needs an exponent"));
    }
    out.extend_from_slice(ryu::Buffer::new().format_finite(number).as_bytes());
    Ok(())
}

/// The name of a double that is not finite.
pub fn name_of(number: f64) -> &'static str {
    match () {
        () if number.is_nan() => "NaN",
        () if number > 0.0 => "Infinity",
        () => "-Infinity",
    }
}

/// A double as Python's `repr` writes it: `1e+16`, `1e-05`.
pub fn write_repr(out: &mut Out, number: f64) {
    if !number.is_finite() {
        return out.extend_from_slice(name_of(number).as_bytes());
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(number);
    let (sign, digits) = if number.is_sign_negative() { text.split_at(1) } else { ("", text) };
    out.extend_from_slice(sign.as_bytes());
    if let Some((mantissa, exponent)) = digits.split_once('e') {
        out.extend_from_slice(mantissa.as_bytes());
        let (sign, power) = exponent.strip_prefix('-').map_or((b'+', exponent), |power| (b'-', power));
        out.extend_from_slice(&[b'e', sign]);
        if power.len() < 2 {
            out.push(b'0');
        }
        out.extend_from_slice(power.as_bytes());
    } else if let Some(small) = digits.strip_prefix("0.0000") {
        let (first, more) = small.split_at(1);
        out.extend_from_slice(first.as_bytes());
        if !more.is_empty() {
            out.push(b'.');
            out.extend_from_slice(more.as_bytes());
        }
        out.extend_from_slice(b"e-05");
    } else {
        out.extend_from_slice(digits.as_bytes());
    }
}

pub fn write_hex(out: &mut Out, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&[HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]]);
    }
}

/// A UUID in standard byte order: `00112233-4455-…`.
pub fn write_uuid(out: &mut Out, bytes: &[u8]) {
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        write_hex(out, &[*byte]);
    }
}

pub fn write_base64(out: &mut Out, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { digit } else { b'=' });
        }
    }
}

/// A decimal that needs no exponent; others do not fit.
pub fn write_decimal(out: &mut Out, low: u64, high: u64) -> Fit<()> {
    let exponent = (high >> 49 & 0x3FFF) as i64 - EXPONENT_BIAS;
    let coefficient = u128::from(high & COEFFICIENT_MASK) << 64 | u128::from(low);
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(coefficient).as_bytes();
    let count = digits.len() as i64;
    if exponent > 0 || count + exponent < FEWEST_PLACES || digits.len() > MAX_DIGITS {
        return Err(Misfit("a decimal that needs an exponent"));
    }
    if high >> 63 == 1 {
        out.push(b'-');
    }
    let whole = (count + exponent).max(0) as usize;
    out.extend_from_slice(if whole == 0 { b"0" } else { &digits[..whole] });
    if exponent < 0 {
        out.push(b'.');
        out.push_zeros((-(count + exponent)).max(0) as usize);
        out.extend_from_slice(&digits[whole..]);
    }
    Ok(())
}

/// Whether a date is between the years 1 and 9999.
pub fn is_near(millis: i64) -> bool {
    (FIRST_MILLIS..=LAST_MILLIS).contains(&millis)
}

/// ISO 8601 of a near date up to its seconds; returns the milliseconds.
pub fn write_seconds(out: &mut Out, millis: i64) -> Fit<i64> {
    if !is_near(millis) {
        return Err(Misfit("a date outside of the years 1 to 9999"));
    }
    let (year, month, day) = find_day(millis.div_euclid(DAY));
    let rest = millis.rem_euclid(DAY);
    write_digits(out, year, 4);
    for (mark, number) in [
        (b'-', month),
        (b'-', day),
        (b'T', rest / 3_600_000),
        (b':', rest / 60_000 % 60),
        (b':', rest / 1000 % 60),
    ] {
        out.push(mark);
        write_digits(out, number, 2);
    }
    Ok(rest % 1000)
}

/// ISO 8601 of a near date, always with milliseconds.
pub fn write_date(out: &mut Out, millis: i64) -> Fit<()> {
    let fraction = write_seconds(out, millis)?;
    out.push(b'.');
    write_digits(out, fraction, 3);
    out.push(b'Z');
    Ok(())
}

/// ISO 8601 of a near date without the trailing zeros of its second.
pub fn write_short_date(out: &mut Out, millis: i64) -> Fit<()> {
    let fraction = write_seconds(out, millis)?;
    if fraction != 0 {
        out.push(b'.');
        write_digits(out, fraction, 3);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.push(b'Z');
    Ok(())
}

fn write_digits(out: &mut Out, number: i64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (number / 10_i64.pow(place) % 10) as u8);
    }
}

/// Year, month and day of a day since 1970, in eras of 400 years that begin in March.
fn find_day(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}
