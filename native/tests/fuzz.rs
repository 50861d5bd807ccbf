//! Malformed BSON never panics, and what is rendered is JSON of bounded size.
//!
//! The cases are the same in each run, `PROPTEST_CASES` many. With `FUZZ_SECONDS`, others are tried for that long.

use std::time::{Duration, Instant};

use docgraph_native::bson::{join_values, split_reply, Elements};
use docgraph_native::join::{Key, Keys};
use docgraph_native::program::{find_value, Object, Program, Scalar, Step, Type, Writer};
use docgraph_native::values::Mode;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

const MODES: [&str; 8] = [
    "standard",
    "strict",
    "extended",
    "relaxed",
    "graphql",
    "graphql-canonical",
    "graphql-relaxed",
    "graphql-plain",
];
const SCALARS: [&str; 13] = [
    "String",
    "Int",
    "Float",
    "Boolean",
    "ID",
    "Long",
    "Decimal128",
    "ObjectId",
    "Timestamp",
    "DateTime",
    "UUID",
    "Regex",
    "BsonDocument",
];

/// An element: a type with bytes that may or may not be a value of it.
fn element() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), "[a-c$\u{1}é]{0,3}"];
    let kind = prop_oneof![4 => 1_u8..0x14, 1 => any::<u8>()];
    let size = prop_oneof![Just(0_usize), Just(1), Just(4), Just(8), Just(12), Just(16), 0_usize..24];
    (kind, name, size, proptest::collection::vec(any::<u8>(), 24), any::<bool>()).prop_map(
        |(kind, name, size, bytes, has_length)| {
            let mut data = vec![kind];
            data.extend_from_slice(name.as_bytes());
            data.push(0);
            match kind {
                2 | 0x0D | 0x0E if has_length => {
                    data.extend_from_slice(&(size as i32 + 1).to_le_bytes());
                    data.extend(bytes[..size].iter().map(|byte| byte & 0x7F));
                    data.push(0);
                }
                5 if has_length => {
                    data.extend_from_slice(&(size as i32).to_le_bytes());
                    data.push(bytes[23] % 6);
                    data.extend_from_slice(&bytes[..size]);
                }
                _ => data.extend_from_slice(&bytes[..size]),
            }
            data
        },
    )
}

fn document() -> impl Strategy<Value = Vec<u8>> {
    let flat = proptest::collection::vec(element(), 0..5).prop_map(|elements| close(&elements));
    flat.prop_recursive(6, 40, 5, |inner| {
        let nested = (inner, prop_oneof![Just(3_u8), Just(4)], prop_oneof![Just(b'a'), Just(b'b')]);
        let nested = nested.prop_map(|(inner, kind, name)| [&[kind, name, 0], &inner[..]].concat());
        proptest::collection::vec(prop_oneof![element(), nested], 1..5).prop_map(|parts| close(&parts))
    })
}

fn close(elements: &[Vec<u8>]) -> Vec<u8> {
    let body = elements.concat();
    let mut data = (body.len() as i32 + 5).to_le_bytes().to_vec();
    data.extend_from_slice(&body);
    data.push(0);
    data
}

/// A document in which some bytes are replaced, or the end is missing.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (document(), changes, any::<prop::sample::Index>(), 0_u8..8).prop_map(|(mut data, changes, end, cut)| {
        for (place, byte) in changes {
            let place = place.index(data.len());
            data[place] = byte;
        }
        if cut == 0 {
            data.truncate(end.index(data.len()));
        }
        data
    })
}

fn path(steps: &[&str]) -> Vec<Step> {
    steps.iter().map(|step| Step::parse(step).unwrap()).collect()
}

fn programs() -> Vec<Program> {
    let mut all = Vec::new();
    for name in MODES {
        let mode = Mode::parse(name).unwrap();
        all.push(Program::Whole(vec![b"b"[..].into()], mode));
        for scalar in SCALARS.map(|scalar| Scalar::parse(scalar).unwrap()) {
            let mut inner = Object::default();
            inner.add_stored("x", path(&["a"]), Type::Scalar(scalar));
            let mut object = Object::default();
            object.add_stored("one", path(&["a"]), Type::Scalar(scalar));
            object.add_stored("list", path(&["b", "a"]), Type::List(Box::new(Type::Scalar(scalar))));
            object.add_stored("object", path(&["a", "1"]), Type::Object(inner));
            all.push(Program::Fields(object, mode));
            let mut single = Object::default();
            single.add_stored("a", path(&["a"]), Type::Scalar(scalar));
            all.push(Program::Fields(single, mode));
        }
    }
    all
}

fn check(programs: &[Program], data: &[u8]) {
    for program in programs {
        let mut writer = Writer::new(&[], 0, usize::MAX);
        if writer.write(program, data, 0).is_ok() {
            let text = std::str::from_utf8(&writer.out).expect("UTF-8");
            assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
            assert!(text.len() <= 64 * (data.len() + 2), "{text}");
            assert_eq!(depth_at_end(text), 0, "{text}");
        }
    }
    let _ = find_value(data, &path(&["a", "0", "b"])).and_then(|value| join_values(&[value]));
    let keys = Keys::new(vec![Some(Key::Integer(0)), Some(Key::Text("")), None]);
    if let Ok(groups) = keys.group(&[data], "a", 1) {
        assert!(groups.iter().flatten().count() <= 1);
    }
    if let Ok(reply) = split_reply(data) {
        assert!(reply.documents.iter().all(|(start, end)| start < end && *end <= data.len()));
        assert!(Elements::of(&reply.head).is_ok());
    }
}

/// How many brackets outside of strings stay open.
fn depth_at_end(text: &str) -> i64 {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth -= 1,
            _ => assert!(!is_text || byte >= 0x20, "a control character"),
        }
    }
    assert!(!is_text, "an open string");
    depth
}

fn run(strategy: impl Strategy<Value = Vec<u8>>) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let programs = programs();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let fixed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config.clone(), fixed);
    loop {
        runner.run(&strategy, |data| Ok(check(&programs, &data))).unwrap();
        if Instant::now() >= end {
            break;
        }
        runner = TestRunner::new(config.clone());
    }
}

#[test]
fn malformed_documents() {
    run(damaged());
}

#[test]
fn arbitrary_bytes() {
    run(proptest::collection::vec(any::<u8>(), 0..200));
}

#[test]
fn malformed_replies() {
    let batch = proptest::collection::vec(document(), 0..4).prop_map(|documents| {
        let parts: Vec<Vec<u8>> = documents.iter().map(|one| [b"\x030\0", &one[..]].concat()).collect();
        let cursor = close(&[[b"\x04firstBatch\0", &close(&parts)[..]].concat()]);
        close(&[[b"\x03cursor\0", &cursor[..]].concat()])
    });
    let changed = (batch, any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    run(changed.prop_map(|(mut data, place, byte, is_changed)| {
        if is_changed {
            let place = place.index(data.len());
            data[place] = byte;
        }
        data
    }));
}
