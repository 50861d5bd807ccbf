//! The Python module `docgraph_native`.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyMemoryView, PySlice, PyString, PyTuple};

use crate::bson::{self, find_field, join_values, keep_fields, Fit, Value};
use crate::join::{Key, Keys};
use crate::json::write_string;
use crate::out::{Out, OUT_OF_MEMORY};
use crate::program::{self, find_value, EnumNames, Object, Scalar, Step, Type, Writer};
use crate::values::{Mode, MAX_DEPTH};

/// Bytes of documents above which other threads run in the meantime.
const LARGE: usize = 256 * 1024;

pyo3::create_exception!(
    docgraph_native,
    Misfit,
    pyo3::exceptions::PyException,
    "A document that the careful path must render; `index` is its position, -1 the reply itself."
);

fn misfit(py: Python, fault: bson::Misfit, index: isize) -> PyErr {
    if fault == OUT_OF_MEMORY {
        return PyMemoryError::new_err(fault.0);
    }
    let error = Misfit::new_err(fault.0);
    match error.value(py).setattr("index", index) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Documents as the database sent them.
#[pyclass(frozen, module = "docgraph_native")]
struct Batch {
    data: Py<PyBytes>,
    documents: Arc<[(usize, usize)]>,
    /// The reply without its documents; empty for a batch of other origin.
    #[pyo3(get)]
    head: Py<PyBytes>,
}

impl Batch {
    fn with(&self, py: Python, documents: Arc<[(usize, usize)]>) -> Self {
        Self { data: self.data.clone_ref(py), documents, head: self.head.clone_ref(py) }
    }

    fn slices<'a>(&'a self, py: Python<'a>) -> Vec<&'a [u8]> {
        let data = self.data.as_bytes(py);
        self.documents.iter().map(|(start, end)| &data[*start..*end]).collect()
    }
}

#[pymethods]
impl Batch {
    /// Joins encoded documents of other origin.
    #[new]
    fn new(py: Python, documents: Vec<Bound<PyAny>>) -> PyResult<Self> {
        let mut data = Out::default();
        let mut places = Vec::with_capacity(documents.len());
        for document in documents {
            let start = data.len();
            data.extend_from_slice(copy_bytes(&document)?.as_bytes());
            places.push((start, data.len()));
        }
        data.check().map_err(|fault| misfit(py, fault, -1))?;
        let data = build_bytes(py, &data)?.unbind();
        Ok(Self { data, documents: places.into(), head: PyBytes::new(py, b"").unbind() })
    }

    fn __len__(&self) -> usize {
        self.documents.len()
    }

    /// The size of all documents in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.documents.iter().map(|(start, end)| end - start).sum()
    }

    /// One document, encoded.
    fn slice<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let place = self.documents.get(index).ok_or_else(|| PyIndexError::new_err("no such document"))?;
        let view = PyMemoryView::from(self.data.bind(py).as_any())?;
        view.get_item(PySlice::new(py, place.0 as isize, place.1 as isize, 1))
    }

    /// The size of the largest document in bytes.
    #[getter]
    fn largest(&self) -> usize {
        self.documents.iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// Where to divide the documents, so that each part but the last has at least `size` bytes.
    fn cut(&self, size: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        let (mut start, mut sum) = (0, 0);
        for (index, (begin, end)) in self.documents.iter().enumerate() {
            sum += end - begin;
            if sum >= size || index + 1 == self.documents.len() {
                parts.push((start, index + 1));
                (start, sum) = (index + 1, 0);
            }
        }
        parts
    }

    /// A copy of each document, encoded.
    fn documents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let slices = self.slices(py);
        let copies: Vec<_> = slices.into_iter().map(|one| build_bytes(py, one)).collect::<PyResult<_>>()?;
        PyList::new(py, copies)
    }

    /// The documents from `start` up to `stop`, without copies.
    fn part(&self, py: Python, start: usize, stop: usize) -> Self {
        let stop = stop.min(self.documents.len());
        self.with(py, self.documents[start.min(stop)..stop].into())
    }

    /// The documents with these positions, in this order, without copies.
    fn pick(&self, py: Python, indexes: Vec<usize>) -> PyResult<Self> {
        let find = |index: &usize| self.documents.get(*index).copied();
        let picked: Option<Arc<[_]>> = indexes.iter().map(find).collect();
        let picked = picked.ok_or_else(|| PyIndexError::new_err("no such document"))?;
        Ok(self.with(py, picked))
    }

    /// The values of a path, decoded together by the driver's `decode`; a missing value is None.
    fn values<'py>(
        &self,
        py: Python<'py>,
        path: Vec<String>,
        decode: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse_path(&path)?;
        let mut found = Vec::with_capacity(self.documents.len());
        for (index, document) in self.slices(py).into_iter().enumerate() {
            found.push(find_value(document, &path).map_err(|fault| misfit(py, fault, index as isize))?);
        }
        let joined = join_values(&found).map_err(|fault| misfit(py, fault, -1))?;
        decode.call1((build_bytes(py, &joined)?,))?.get_item("v")
    }
}

/// A batch, or a list of encoded documents.
enum Documents<'py> {
    Batch(Bound<'py, Batch>),
    List(Vec<Bound<'py, PyBytes>>),
}

impl<'py> Documents<'py> {
    fn open(documents: &Bound<'py, PyAny>) -> PyResult<Self> {
        match documents.cast_exact::<PyList>() {
            Ok(list) => open_list(list).map(Self::List),
            Err(_) => Ok(Self::Batch(documents.cast::<Batch>()?.clone())),
        }
    }

    fn slices(&self) -> Vec<&[u8]> {
        match self {
            Self::Batch(batch) => batch.get().slices(batch.py()),
            Self::List(documents) => documents.iter().map(|one| one.as_bytes()).collect(),
        }
    }
}

fn open_list<'py>(list: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    list.iter().map(|one| Ok(one.cast_into::<PyBytes>()?)).collect()
}

/// The size of all documents in bytes; None if some of them are decoded.
#[pyfunction]
fn measure(documents: &Bound<PyList>) -> Option<usize> {
    documents.iter().map(|one| one.cast_exact::<PyBytes>().ok().map(|data| data.as_bytes().len())).sum()
}

/// Documents with these fields only, decoded together by the driver's `decode`.
#[pyfunction]
fn view<'py>(
    py: Python<'py>,
    documents: &Bound<'py, PyList>,
    names: Vec<String>,
    decode: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut parts = Vec::with_capacity(documents.len());
    for (index, document) in open_list(documents)?.iter().enumerate() {
        let part = keep_fields(document.as_bytes(), &names);
        parts.push(part.map_err(|fault| misfit(py, fault, index as isize))?);
    }
    let values: Vec<_> = parts.iter().map(|data| Value { kind: bson::DOCUMENT, data }).collect();
    let joined = join_values(&values).map_err(|fault| misfit(py, fault, -1))?;
    decode.call1((build_bytes(py, &joined)?,))?.get_item("v")
}

/// The value of a field of each document, decoded together; `missing` where there is none.
#[pyfunction]
fn read_field<'py>(
    py: Python<'py>,
    documents: &Bound<'py, PyList>,
    name: &str,
    decode: &Bound<'py, PyAny>,
    missing: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let documents = open_list(documents)?;
    let mut found = Vec::with_capacity(documents.len());
    let mut absent = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let value = find_field(document.as_bytes(), name.as_bytes());
        found.push(value.map_err(|fault| misfit(py, fault, index as isize))?.unwrap_or_else(|| {
            absent.push(index);
            bson::MISSING
        }));
    }
    let joined = join_values(&found).map_err(|fault| misfit(py, fault, -1))?;
    let values = decode.call1((build_bytes(py, &joined)?,))?.get_item("v")?;
    for index in absent {
        values.set_item(index, missing)?;
    }
    Ok(values)
}

/// The documents of each distinct key, one key after the other: at most `limit`, where the documents of each key
/// end, and the number of the key of each parent. That of a parent without a key has no documents.
#[pyfunction]
fn join_lists<'py>(
    documents: &Bound<'py, PyList>,
    name: &str,
    keys: Vec<Bound<'py, PyAny>>,
    limit: usize,
) -> PyResult<(Bound<'py, PyList>, Vec<usize>, Vec<usize>)> {
    let (groups, parents) = group(documents, name, &keys, limit)?;
    let mut ends = Vec::with_capacity(groups.len() + 1);
    let mut end = 0;
    for group in &groups {
        end += group.len();
        ends.push(end);
    }
    ends.push(end);
    let parents = parents.into_iter().map(|number| number.unwrap_or(groups.len())).collect();
    Ok((pick(documents, groups.iter().flatten())?, ends, parents))
}

/// The first document of each distinct key that has one, and which of them each parent has.
#[pyfunction]
fn join_firsts<'py>(
    documents: &Bound<'py, PyList>,
    name: &str,
    keys: Vec<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyList>, Vec<Option<usize>>)> {
    let (groups, parents) = group(documents, name, &keys, 1)?;
    let mut count = 0;
    let mut places = Vec::with_capacity(groups.len());
    for group in &groups {
        places.push((!group.is_empty()).then_some(count));
        count += group.len();
    }
    let parents = parents.into_iter().map(|number| number.and_then(|one| places[one])).collect();
    Ok((pick(documents, groups.iter().flatten())?, parents))
}

type Grouped = (Vec<Vec<usize>>, Vec<Option<usize>>);

fn group(documents: &Bound<PyList>, name: &str, keys: &[Bound<PyAny>], limit: usize) -> PyResult<Grouped> {
    let ids: Vec<Option<Bound<PyBytes>>> = keys.iter().map(read_id).collect::<PyResult<_>>()?;
    let keys: Vec<Option<Key>> =
        keys.iter().zip(&ids).map(|(key, id)| read_key(key, id.as_ref())).collect::<PyResult<_>>()?;
    let keys = Keys::new(keys);
    let opened = open_list(documents)?;
    let slices: Vec<&[u8]> = opened.iter().map(|one| one.as_bytes()).collect();
    let groups = keys.group(&slices, name, limit);
    let groups = groups.map_err(|(fault, index)| misfit(documents.py(), fault, index as isize))?;
    Ok((groups, keys.parents))
}

/// The bytes of an ObjectId; None for other values.
fn read_id<'py>(key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if key.is_none() || key.is_instance_of::<PyInt>() || key.is_instance_of::<PyString>() {
        return Ok(None);
    }
    let id = key.getattr(pyo3::intern!(key.py(), "binary")).ok();
    id.map_or(Ok(None), |id| Ok(id.cast_into::<PyBytes>().ok()))
}

fn read_key<'a>(key: &'a Bound<PyAny>, id: Option<&'a Bound<PyBytes>>) -> PyResult<Option<Key<'a>>> {
    if key.is_none() {
        return Ok(None);
    }
    let read = match (id, key.cast::<PyString>()) {
        (Some(id), _) => Some(Key::Id(id.as_bytes())),
        (None, Ok(text)) => text.to_str().ok().map(Key::Text),
        _ if key.is_instance_of::<PyBool>() => None,
        _ => key.cast::<PyInt>().ok().and_then(|number| number.extract().ok()).map(Key::Integer),
    };
    let unfit = || misfit(key.py(), bson::Misfit("a key of another type"), -1);
    read.map(Some).ok_or_else(unfit)
}

fn pick<'a, 'py>(
    documents: &Bound<'py, PyList>,
    places: impl Iterator<Item = &'a usize>,
) -> PyResult<Bound<'py, PyList>> {
    let picked: Vec<_> = places.map(|place| documents.get_item(*place)).collect::<PyResult<_>>()?;
    PyList::new(documents.py(), picked)
}

/// Copies bytes; without memory for them it is an error, where `PyBytes::new` panics.
fn build_bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, data.len(), |bytes| Ok(bytes.copy_from_slice(data)))
}

fn copy_bytes<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast_exact::<PyBytes>() {
        return Ok(bytes.clone());
    }
    PyBuffer::<u8>::get(data)?; // `bytes` also accepts other objects
    let copy = data.py().get_type::<PyBytes>().call1((data,))?;
    Ok(copy.cast_into()?)
}

/// Takes the body of a reply (OP_MSG) apart; a reply without a batch has no documents.
#[pyfunction]
fn split_reply(message: &Bound<PyAny>) -> PyResult<Batch> {
    let py = message.py();
    let data = copy_bytes(message)?;
    let reply = bson::split_reply(data.as_bytes()).map_err(|fault| misfit(py, fault, -1))?;
    let head = build_bytes(py, &reply.head)?.unbind();
    Ok(Batch { data: data.unbind(), documents: reply.documents.into(), head })
}

/// A compiled output program.
#[pyclass(frozen, module = "docgraph_native")]
struct Program {
    program: Arc<program::Program>,
    slots: usize,
}

impl From<program::Program> for Program {
    fn from(program: program::Program) -> Self {
        Self { slots: program.count_slots(), program: program.into() }
    }
}

#[pymethods]
impl Program {
    /// Compiles fields; see `docs/explanation/native-lane.md` for their form.
    #[new]
    fn new(fields: &Bound<PyList>, mode: &str) -> PyResult<Self> {
        Ok(program::Program::Fields(parse_object(fields, 0)?, parse_mode(mode)?).into())
    }

    /// Compiles a program that writes whole documents without these properties.
    #[staticmethod]
    #[pyo3(signature = (mode, hidden = Vec::new()))]
    fn whole(mode: &str, hidden: Vec<String>) -> PyResult<Self> {
        let hidden = hidden.into_iter().map(|name| name.into_bytes().into()).collect();
        Ok(program::Program::Whole(hidden, parse_mode(mode)?).into())
    }

    /// Compiles a program that writes each document by the program for the text of a field.
    #[staticmethod]
    fn choice(name: String, programs: &Bound<PyDict>) -> PyResult<Self> {
        let mut chosen = std::collections::HashMap::with_capacity(programs.len());
        for (text, program) in programs {
            let program = program.cast_into::<Self>()?;
            if program.get().slots > 0 || matches!(*program.get().program, program::Program::Choice(..)) {
                return Err(invalid("a choice has programs without slots and choices"));
            }
            chosen.insert(text.extract::<String>()?.into_bytes().into(), program.get().program.clone());
        }
        Ok(program::Program::Choice(name.into_bytes().into(), chosen).into())
    }

    /// One JSON array of all documents; `columns` has a list of JSON texts for each slot.
    #[pyo3(signature = (documents, columns = Vec::new(), max_bytes = None))]
    fn render_list<'py>(
        &self,
        py: Python<'py>,
        documents: &Bound<'py, PyAny>,
        columns: Vec<Bound<'py, PyList>>,
        max_bytes: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (out, _) = self.render(py, documents, columns, max_bytes, Lists::One)?;
        build_bytes(py, &out)
    }

    /// A JSON array of the documents up to each of these positions, from the previous one.
    #[pyo3(signature = (documents, ends, columns = Vec::new(), max_bytes = None))]
    fn render_lists<'py>(
        &self,
        py: Python<'py>,
        documents: &Bound<'py, PyAny>,
        ends: Vec<usize>,
        columns: Vec<Bound<'py, PyList>>,
        max_bytes: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (out, ends) = self.render(py, documents, columns, max_bytes, Lists::Many(&ends))?;
        cut(py, &out, &ends)
    }

    /// One JSON text for each document.
    #[pyo3(signature = (documents, columns = Vec::new(), max_bytes = None))]
    fn render_each<'py>(
        &self,
        py: Python<'py>,
        documents: &Bound<'py, PyAny>,
        columns: Vec<Bound<'py, PyList>>,
        max_bytes: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (out, ends) = self.render(py, documents, columns, max_bytes, Lists::None)?;
        cut(py, &out, &ends)
    }
}

fn cut<'py>(py: Python<'py>, out: &[u8], ends: &[usize]) -> PyResult<Bound<'py, PyList>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let parts = starts.zip(ends).map(|(start, end)| build_bytes(py, &out[start..*end]));
    let parts: Vec<_> = parts.collect::<PyResult<_>>()?;
    PyList::new(py, parts)
}

impl Program {
    fn render(
        &self,
        py: Python,
        documents: &Bound<PyAny>,
        columns: Vec<Bound<PyList>>,
        max_bytes: Option<usize>,
        lists: Lists,
    ) -> PyResult<(Vec<u8>, Vec<usize>)> {
        let documents = Documents::open(documents)?;
        let documents = documents.slices();
        lists.check(documents.len())?;
        let columns = open_columns(&columns, self.slots, documents.len())?;
        let columns: Vec<Vec<&[u8]>> =
            columns.iter().map(|column| column.iter().map(|json| json.as_bytes()).collect()).collect();
        let size: usize = documents.iter().map(|document| document.len()).sum();
        let max_bytes = max_bytes.unwrap_or(usize::MAX);
        let write = || write_all(&self.program, &documents, &columns, max_bytes, &lists);
        let written = if size > LARGE { py.detach(write) } else { write() };
        written.map_err(|(fault, index)| misfit(py, fault, index as isize))
    }
}

/// The lists that the JSON of documents is in.
enum Lists<'a> {
    None,
    One,
    /// Several, one after the other: where each of them ends.
    Many(&'a [usize]),
}

impl Lists<'_> {
    fn check(&self, documents: usize) -> PyResult<()> {
        match self {
            Self::Many(ends) if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != documents => {
                Err(invalid("lists have all documents, one list after the other"))
            }
            _ => Ok(()),
        }
    }
}

type Written = Result<(Vec<u8>, Vec<usize>), (bson::Misfit, usize)>;

fn write_all(
    program: &program::Program,
    documents: &[&[u8]],
    columns: &[Vec<&[u8]>],
    max_bytes: usize,
    lists: &Lists,
) -> Written {
    // Enough for most: to grow would need both sizes for a moment. Memory that is not written costs nothing.
    let documents_size: usize = documents.iter().map(|document| document.len()).sum();
    let columns_size: usize = columns.iter().flatten().map(|json| json.len()).sum();
    let capacity = documents_size / 2 * 3 + columns_size;
    let mut writer = Writer::new(columns, capacity.min(max_bytes) + 2, max_bytes);
    let mut ends = Vec::new();
    let all = [documents.len()];
    let (is_list, lists) = match lists {
        Lists::None => (false, &[][..]),
        Lists::One => (true, &all[..]),
        Lists::Many(lists) => (true, *lists),
    };
    let mut start = 0;
    for end in if is_list { lists } else { &all } {
        for (document, index) in documents[start..*end].iter().zip(start..) {
            if is_list {
                writer.out.push(if index == start { b'[' } else { b',' });
            }
            let fit: Fit<()> = writer.write(program, document, index);
            fit.map_err(|fault| (fault, index))?;
            if !is_list {
                ends.push(writer.out.len());
            }
        }
        if is_list {
            writer.out.extend_from_slice(if *end == start { b"[]" } else { b"]" });
            ends.push(writer.out.len());
        }
        start = *end;
    }
    writer.out.check().map_err(|fault| (fault, documents.len()))?;
    Ok((writer.out.into_bytes(), ends))
}

fn open_columns<'py>(
    columns: &[Bound<'py, PyList>],
    slots: usize,
    documents: usize,
) -> PyResult<Vec<Vec<Bound<'py, PyBytes>>>> {
    if columns.len() != slots || columns.iter().any(|column| column.len() != documents) {
        return Err(invalid("one column for each slot, with one text for each document, is needed"));
    }
    columns.iter().map(open_list).collect()
}

fn invalid(reason: &str) -> PyErr {
    PyValueError::new_err(reason.to_owned())
}

fn parse_mode(name: &str) -> PyResult<Mode> {
    Mode::parse(name).ok_or_else(|| invalid("the native lane does not support this JSON mode"))
}

fn parse_path(path: &[String]) -> PyResult<Vec<Step>> {
    let steps: Option<Vec<Step>> = path.iter().map(|step| Step::parse(step)).collect();
    steps.filter(|steps| !steps.is_empty()).ok_or_else(|| invalid("not a path"))
}

/// `(key, "constant", json)`, `(key, "slot", number)` or `(key, "stored", path, type)`.
fn parse_object(fields: &Bound<PyList>, depth: usize) -> PyResult<Object> {
    let mut object = Object::default();
    for field in fields {
        let field = field.cast_into::<PyTuple>()?;
        let key: String = field.get_item(0)?.extract()?;
        let kind: String = field.get_item(1)?.extract()?;
        let source = field.get_item(2)?;
        match kind.as_str() {
            "constant" => object.add_constant(&key, source.extract::<Vec<u8>>()?),
            "slot" => object.add_slot(&key, source.extract()?),
            "stored" => {
                let path = parse_path(&source.extract::<Vec<String>>()?)?;
                object.add_stored(&key, path, parse_type(&field.get_item(3)?, depth + 1)?);
            }
            _ => return Err(invalid("unknown kind of field")),
        }
    }
    Ok(object)
}

/// `("scalar", name)`, `("enum", {stored: name})`, `("object", fields)`, `("list", type)`, `("non-null", type)`.
fn parse_type(spec: &Bound<PyAny>, depth: usize) -> PyResult<Type> {
    if depth > MAX_DEPTH / 2 {
        return Err(invalid("types are nested too deep"));
    }
    let (kind, inner): (String, Bound<PyAny>) = spec.extract()?;
    Ok(match kind.as_str() {
        "non-null" => Type::NonNull(Box::new(parse_type(&inner, depth + 1)?)),
        "list" => Type::List(Box::new(parse_type(&inner, depth + 1)?)),
        "object" => Type::Object(parse_object(inner.cast::<PyList>()?, depth + 1)?),
        "enum" => Type::Enum(parse_enum(inner.cast::<PyDict>()?)?),
        "scalar" => {
            let name: String = inner.extract()?;
            Type::Scalar(Scalar::parse(&name).ok_or_else(|| invalid("unknown scalar"))?)
        }
        _ => return Err(invalid("unknown kind of type")),
    })
}

fn parse_enum(names: &Bound<PyDict>) -> PyResult<EnumNames> {
    let mut parsed = EnumNames::default();
    for (stored, name) in names {
        let mut json = Out::default();
        write_string(&mut json, &name.extract::<String>()?);
        if stored.is_exact_instance_of::<PyString>() {
            parsed.texts.insert(stored.extract::<String>()?.into_bytes().into(), json.into_bytes());
        } else if stored.is_exact_instance_of::<PyInt>() {
            parsed.numbers.insert(stored.extract()?, json.into_bytes());
        } else {
            return Err(invalid("the native lane supports enums of texts and integers"));
        }
    }
    Ok(parsed)
}

#[pymodule]
fn docgraph_native(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Misfit", module.py().get_type::<Misfit>())?;
    module.add_class::<Batch>()?;
    module.add_class::<Program>()?;
    module.add_function(wrap_pyfunction!(measure, module)?)?;
    module.add_function(wrap_pyfunction!(read_field, module)?)?;
    module.add_function(wrap_pyfunction!(view, module)?)?;
    module.add_function(wrap_pyfunction!(join_lists, module)?)?;
    module.add_function(wrap_pyfunction!(join_firsts, module)?)?;
    module.add_function(wrap_pyfunction!(split_reply, module)?)
}
