//! Joins: which documents belong to which keys.

use std::collections::HashMap;

use crate::bson::{find_single, Fit, Misfit, Value, INT32, INT64, MISSING, NULL, OBJECT_ID, TEXT};

/// A value of a type that compares by its content; values of other types are left to Python.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key<'a> {
    Integer(i64),
    Text(&'a str),
    Id(&'a [u8]),
}

impl<'a> Key<'a> {
    /// The key of a stored value; null is none.
    fn read(value: Value<'a>) -> Fit<Option<Self>> {
        Ok(Some(match value.kind {
            NULL => return Ok(None),
            INT32 => Self::Integer(value.int32()?.into()),
            INT64 => Self::Integer(value.int64()?),
            TEXT => Self::Text(value.text()?),
            OBJECT_ID => Self::Id(value.data),
            _ => return Err(Misfit("a key of another type")),
        }))
    }
}

/// The keys of all parents: which of the distinct ones each of them has.
pub struct Keys<'a> {
    numbers: HashMap<Key<'a>, usize>,
    pub parents: Vec<Option<usize>>,
}

impl<'a> Keys<'a> {
    pub fn new(keys: Vec<Option<Key<'a>>>) -> Self {
        let mut numbers = HashMap::with_capacity(keys.len());
        let mut number = |key| {
            let next = numbers.len();
            *numbers.entry(key).or_insert(next)
        };
        let parents = keys.into_iter().map(|key| key.map(&mut number)).collect();
        Self { numbers, parents }
    }

    /// The first documents of each distinct key, at most `limit`, as positions in their order.
    pub fn group(
        &self,
        documents: &[&[u8]],
        name: &str,
        limit: usize,
    ) -> Result<Vec<Vec<usize>>, (Misfit, usize)> {
        let mut groups = vec![Vec::new(); self.numbers.len()];
        for (index, document) in documents.iter().enumerate() {
            let value = find_single(document, name.as_bytes()).map_err(|fault| (fault, index))?;
            let key = Key::read(value.unwrap_or(MISSING)).map_err(|fault| (fault, index))?;
            // Of no parent, though the database found it: it compares in another way, so it decides.
            let number = key.and_then(|key| self.numbers.get(&key));
            let number = *number.ok_or((Misfit("a key of no parent"), index))?;
            if groups[number].len() < limit {
                groups[number].push(index);
            }
        }
        Ok(groups)
    }
}
