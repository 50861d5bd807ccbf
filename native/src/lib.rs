//! The native lane of docgraph: from BSON to JSON without Python objects.
//!
//! Whatever is not sure to give the bytes of the Python lane is a `Misfit`.

pub mod bson;
pub mod join;
pub mod json;
pub mod out;
pub mod program;
#[cfg(feature = "python")]
mod python;
pub mod values;
