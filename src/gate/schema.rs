//! The schema of a tool's arguments, compiled; checking against it takes bounded time and memory.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::{
    frame,
    offered::bounded,
    unfolding::{self, Unfolding},
};

/// Steps that a pattern of a schema may take on one string before it counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;

/// Compiled schemas are kept for later runs up to this many; agents offer the same tools again.
const CACHED_SCHEMAS: usize = 4096;

/// Larger ones are not (bytes): the cache belongs to all clients and is never given back.
const LARGEST_CACHED: usize = 16 << 10;

/// What a check may cost: schemas times values that each may meet; some twenty nanoseconds each.
const MOST_WORK: u64 = 1_000_000_000;

/// With more work than this, only the first error is told: each is some hundred bytes.
const WORK_FOR_ALL_ERRORS: u64 = 200_000;

/// Schemas with more inside are compiled and met on a stack of their own, as are values so deep in them.
const SHALLOW: u64 = 200;

/// That stack (bytes); what is not used of it is not taken.
const DEEP_STACK: usize = 256 << 20;

/// A compiled schema.
pub(super) struct Schema {
    validator: Validator,
    unfolding: Unfolding,
}

/// What a check says.
pub(super) enum Verdict<'a> {
    /// The value is as it should be.
    Fits,
    /// It is not, because of these.
    Errors(Vec<ValidationError<'a>>),
    /// It is not; where would take too long to find out.
    Wrong,
    /// Checking would take too long.
    TooLarge,
}

impl Schema {
    /// Compiles a schema, or finds it among those of earlier runs; `None` for one that can't be checked in
    /// bounded time.
    ///
    /// # Errors
    /// When it is no schema.
    pub(super) fn compile(schema: &Value) -> Result<Option<Arc<Self>>, String> {
        static CACHE: LazyLock<Mutex<HashMap<String, Option<Arc<Schema>>>>> =
            LazyLock::new(Mutex::default);
        let text = schema.to_string();
        let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache().get(&text) {
            return Ok(known.clone());
        }
        let compiled = Self::build(schema)?.map(Arc::new);
        let mut cache = cache();
        if cache.len() >= CACHED_SCHEMAS {
            cache.clear();
        }
        if text.len() <= LARGEST_CACHED {
            cache.insert(text, compiled.clone());
        }
        Ok(compiled)
    }

    fn build(schema: &Value) -> Result<Option<Self>, String> {
        let unfolding = match unfolding::measure(schema) {
            Ok(unfolding) => unfolding,
            Err(reason) => {
                tracing::warn!("arguments of a tool are not checked against its schema: {reason}");
                return Ok(None);
            }
        };
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT);
        let options = jsonschema::options().with_pattern_options(patterns);
        let validator = on_deep_stack(unfolding.height, || options.build(schema))?;
        let validator = validator.map_err(|error| bounded(&error.to_string()))?;
        Ok(Some(Self {
            validator,
            unfolding,
        }))
    }

    /// Checks a value.
    pub(super) fn check<'a>(&'a self, value: &'a Value) -> Verdict<'a> {
        let work = self.unfolding.size.saturating_mul(parts(value));
        if work > MOST_WORK {
            return Verdict::TooLarge;
        }
        let depth = frame::depth(value) as u64;
        let height = self.unfolding.height.saturating_mul(depth.max(1));
        let verdict = on_deep_stack(height, || self.verdict(value, work, depth));
        verdict.unwrap_or(Verdict::TooLarge)
    }

    fn verdict<'a>(&'a self, value: &'a Value, work: u64, depth: u64) -> Verdict<'a> {
        if self.validator.is_valid(value) {
            return Verdict::Fits;
        }
        // What leads back is met again at each level, by each of the ways that lead there.
        let levels = u32::try_from(depth).unwrap_or(u32::MAX);
        let again = self.unfolding.returns.max(1).saturating_pow(levels);
        let work = work.saturating_mul(again);
        if work <= WORK_FOR_ALL_ERRORS {
            return Verdict::Errors(self.validator.iter_errors(value).collect());
        }
        // An error about branches holds all errors of each.
        if self.unfolding.has_branches {
            return Verdict::Wrong;
        }
        Verdict::Errors(self.validator.validate(value).err().into_iter().collect())
    }
}

/// Does what goes as deep as `height` where there is room for it.
///
/// # Errors
/// When the machine has no stack to give.
fn on_deep_stack<T: Send>(height: u64, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    if height <= SHALLOW {
        return Ok(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK);
        let thread = thread.spawn_scoped(scope, work);
        let done = thread.map_err(|error| format!("no thread to check it on: {error}"))?;
        done.join().map_err(|_| "checking it failed".to_owned())
    })
}

/// How many values there are in a value, itself included.
fn parts(value: &Value) -> u64 {
    let mut count = 0;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        count += 1;
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    count
}
