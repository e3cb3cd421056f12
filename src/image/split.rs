//! Cuts a WebAssembly module in two: code that never changes and a state that is snapshotted.
//!
//! A snapshot of a started interpreter differs from the module it was taken of in nothing but its
//! linear memory and its globals. So they are given a module of their own: the *code* module
//! imports its memory and globals, the *state* module defines and exports them. The code, whose
//! compilation is nearly all the cost of an image, is then compiled once, serves the run that is
//! snapshotted and every run after it, and is shared by all images.

use std::ops::Range;

use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, GlobalSection,
    GlobalType, ImportSection, MemorySection, MemoryType, Module, RawSection, ValType,
};
use wasmparser::{Operator, Parser, Payload, TypeRef};

/// The module name under which the code imports its state.
pub const STATE_MODULE: &str = "callgate:state";
/// The name of the linear memory in the state module, and among the code's exports.
pub const MEMORY_EXPORT: &str = "memory";

/// Size of a WebAssembly page in bytes (core specification, "Memory Instances").
pub const PAGE_BYTES: u64 = 65_536;
/// Zero runs shorter than this are kept inside a data segment: a segment costs more than they do.
const SMALLEST_GAP: usize = 64 * 1024;

/// Why a module can't be cut in two.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The module is not valid WebAssembly.
    #[error("python.wasm is not valid WebAssembly: {0}")]
    Invalid(#[from] wasmparser::BinaryReaderError),
    /// The module uses something that the split does not carry over.
    #[error("python.wasm uses {0}, which callgate cannot snapshot")]
    Unsupported(&'static str),
}

/// A mutable or constant number that belongs to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Global {
    /// `i32` or `i64`, the only types that the state may hold.
    pub wide: bool,
    /// Whether the code writes it.
    pub mutable: bool,
    /// Its value, sign-extended.
    pub value: i64,
}

/// A module cut in two.
#[derive(Debug)]
pub struct Split {
    /// The module with the code: imports `callgate:state`.
    pub code: Vec<u8>,
    /// The module with the state as it is before anything ran.
    pub state: Vec<u8>,
    /// The globals as they are before anything ran; a snapshot keeps their types.
    pub globals: Vec<Global>,
}

/// The name under which global `index` is exported by the state.
#[must_use]
pub fn global_name(index: usize) -> String {
    format!("global_{index}")
}

/// Cuts `wasm` in two.
///
/// # Errors
/// When the module is invalid, or uses passive data, several memories, imported state or a start
/// function: nothing of that survives a snapshot.
pub fn split(wasm: &[u8]) -> Result<Split, SplitError> {
    let mut parts = Parts::default();
    for payload in Parser::new(0).parse_all(wasm) {
        parts.take(wasm, payload?)?;
    }
    parts.finish()
}

/// A state module that holds `memory` and `globals`.
#[must_use]
pub fn state_module(memory: &[u8], globals: &[Global]) -> Vec<u8> {
    let mut data = DataSection::new();
    for range in used_ranges(memory) {
        let offset =
            ConstExpr::i32_const(u32::try_from(range.start).unwrap_or(u32::MAX).cast_signed());
        data.active(0, &offset, memory[range].iter().copied());
    }
    let pages = (memory.len() as u64).div_ceil(PAGE_BYTES);
    encode_state(
        MemoryType {
            minimum: pages,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        },
        globals,
        &data,
    )
}

/// The ranges of `memory` that are not zero, joined where the gap between two is small.
fn used_ranges(memory: &[u8]) -> Vec<Range<usize>> {
    const BLOCK: usize = 4096;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (index, block) in memory.chunks(BLOCK).enumerate() {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let start = index * BLOCK;
        match ranges.last_mut() {
            Some(last) if start - last.end < SMALLEST_GAP => last.end = start + block.len(),
            _ => ranges.push(start..start + block.len()),
        }
    }
    ranges
}

fn encode_state(memory: MemoryType, globals: &[Global], data: &DataSection) -> Vec<u8> {
    let mut memories = MemorySection::new();
    memories.memory(memory);
    let mut section = GlobalSection::new();
    let mut exports = ExportSection::new();
    exports.export(MEMORY_EXPORT, ExportKind::Memory, 0);
    for (index, global) in (0u32..).zip(globals) {
        section.global(global.encoded_type(), &global.initial());
        exports.export(&global_name(index as usize), ExportKind::Global, index);
    }
    let mut module = Module::new();
    module
        .section(&memories)
        .section(&section)
        .section(&exports)
        .section(&CodeSection::new())
        .section(data);
    module.finish()
}

impl Global {
    fn encoded_type(self) -> GlobalType {
        let val_type = if self.wide {
            ValType::I64
        } else {
            ValType::I32
        };
        GlobalType {
            val_type,
            mutable: self.mutable,
            shared: false,
        }
    }

    fn initial(self) -> ConstExpr {
        if self.wide {
            return ConstExpr::i64_const(self.value);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the value of a narrow global came from 32 bits"
        )]
        ConstExpr::i32_const(self.value as i32)
    }
}

/// What has been read of the module so far.
#[derive(Default)]
struct Parts {
    imports: ImportSection,
    /// The sections of the code module in their order; the import section stands where it belongs.
    sections: Vec<(u8, Vec<u8>)>,
    memory: Option<MemoryType>,
    globals: Vec<Global>,
    data: DataSection,
}

/// Section numbers of the core specification ("Binary Format", "Modules").
mod section_id {
    pub const TYPE: u8 = 1;
    pub const IMPORT: u8 = 2;
    pub const MEMORY: u8 = 5;
}

impl Parts {
    fn take(&mut self, wasm: &[u8], payload: Payload<'_>) -> Result<(), SplitError> {
        match payload {
            Payload::ImportSection(reader) => {
                for import in reader.into_imports() {
                    let import = import?;
                    let TypeRef::Func(type_index) = import.ty else {
                        return Err(SplitError::Unsupported("an import that is not a function"));
                    };
                    self.imports.import(
                        import.module,
                        import.name,
                        EntityType::Function(type_index),
                    );
                }
            }
            Payload::MemorySection(reader) => {
                for memory in reader {
                    self.take_memory(memory?)?;
                }
            }
            Payload::GlobalSection(reader) => {
                for global in reader {
                    self.globals.push(read_global(&global?)?);
                }
            }
            Payload::DataSection(reader) => {
                for data in reader {
                    self.take_data(&data?)?;
                }
            }
            Payload::StartSection { .. } => {
                return Err(SplitError::Unsupported("a start function"));
            }
            Payload::DataCountSection { .. } | Payload::CustomSection(_) => {}
            other => {
                if let Some((id, range)) = other.as_section() {
                    self.sections
                        .push((id, wasm[range.start..range.end].to_vec()));
                }
            }
        }
        Ok(())
    }

    fn take_memory(&mut self, memory: wasmparser::MemoryType) -> Result<(), SplitError> {
        if self.memory.is_some() || memory.memory64 || memory.shared || memory.maximum.is_some() {
            return Err(SplitError::Unsupported(
                "a memory other than one plain, 32-bit, unbounded one",
            ));
        }
        self.memory = Some(MemoryType {
            minimum: memory.initial,
            maximum: memory.maximum,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        Ok(())
    }

    fn take_data(&mut self, data: &wasmparser::Data<'_>) -> Result<(), SplitError> {
        let wasmparser::DataKind::Active {
            memory_index: 0,
            offset_expr,
        } = &data.kind
        else {
            return Err(SplitError::Unsupported("passive data"));
        };
        let (value, wide) = constant(offset_expr)?;
        if wide {
            return Err(SplitError::Unsupported("64-bit data offsets"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "read from an i32.const")]
        let offset = ConstExpr::i32_const(value as i32);
        self.data.active(0, &offset, data.data.iter().copied());
        Ok(())
    }

    fn finish(mut self) -> Result<Split, SplitError> {
        let memory = self.memory.ok_or(SplitError::Unsupported("no memory"))?;
        // Nothing of memory and globals was imported before, so appending the imports moves no index.
        // The code asks for the least memory, so that every later state fits it.
        self.imports
            .import(STATE_MODULE, MEMORY_EXPORT, EntityType::Memory(memory));
        for (index, global) in self.globals.iter().enumerate() {
            self.imports.import(
                STATE_MODULE,
                &global_name(index),
                EntityType::Global(global.encoded_type()),
            );
        }
        let state = encode_state(memory, &self.globals, &self.data);
        let mut code = Module::new();
        let mut imported = false;
        for (id, data) in &self.sections {
            if *id > section_id::TYPE && !imported {
                code.section(&self.imports);
                imported = true;
            }
            debug_assert!(*id != section_id::IMPORT && *id != section_id::MEMORY);
            code.section(&RawSection { id: *id, data });
        }
        Ok(Split {
            code: code.finish(),
            state,
            globals: self.globals,
        })
    }
}

fn read_global(global: &wasmparser::Global<'_>) -> Result<Global, SplitError> {
    let wide = match global.ty.content_type {
        wasmparser::ValType::I32 => false,
        wasmparser::ValType::I64 => true,
        _ => return Err(SplitError::Unsupported("a global that is not an integer")),
    };
    let (value, _) = constant(&global.init_expr)?;
    Ok(Global {
        wide,
        mutable: global.ty.mutable,
        value,
    })
}

/// The value of a constant expression, and whether it is 64 bits wide.
fn constant(expression: &wasmparser::ConstExpr<'_>) -> Result<(i64, bool), SplitError> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok((i64::from(value), false)),
        Operator::I64Const { value } => Ok((value, true)),
        _ => Err(SplitError::Unsupported("a computed constant")),
    }
}
