//! Runs that wait for the client to come back with the results of tool calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::task::AbortHandle;
use uuid::Uuid;

use super::active::ActiveRun;
use crate::{gate::Principal, sandbox::Pause};

/// What a suspended run holds beside what its memory has grown by (bytes): the pages of the snapshot that it wrote
/// to, its stack.
const LEAST_MEMORY: u64 = 1 << 20;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct SuspendedLimits {
    /// Runs.
    pub runs: usize,
    /// Runs of one principal.
    pub of_principal: usize,
    /// Memory of all of them (bytes).
    pub memory: u64,
    /// A run whose client has not come back is ended after this time.
    pub expiry: Duration,
}

/// The suspended runs of the process.
pub struct SuspendedRuns {
    limits: SuspendedLimits,
    runs: Mutex<HashMap<String, Suspended>>,
}

struct Suspended {
    principal: Principal,
    run: ActiveRun,
    /// Larger for those that came later.
    number: u64,
    memory: u64,
    expiry: AbortHandle,
    /// Requests that wait for their turn to continue it: it neither expires nor makes room meanwhile.
    claims: usize,
}

impl Suspended {
    /// Nobody else will hear what the run has done.
    fn log_end(&self, how: &str) {
        let records = self.run.gate.close();
        let calls: Vec<String> = records
            .iter()
            .map(|call| format!("{}: {}", call.tool_name, call.outcome.describe()))
            .collect();
        tracing::warn!(principal = %self.principal, ?calls, "a suspended run {how}");
    }
}

/// The right to continue a run, once there is a slot for it.
pub struct Claim {
    runs: Arc<SuspendedRuns>,
    handle: String,
    pause: Arc<Pause>,
}

impl SuspendedRuns {
    /// None yet.
    #[must_use]
    pub fn new(limits: SuspendedLimits) -> Arc<Self> {
        let runs = Mutex::default();
        Arc::new(Self { limits, runs })
    }

    /// How long a handle is good.
    #[must_use]
    pub fn expiry(&self) -> Duration {
        self.limits.expiry
    }

    /// Keeps a run; returns the handle under which its principal gets it back. Where there is no
    /// room, the principal's oldest runs are ended to make some.
    ///
    /// # Errors
    /// With the run itself and the reason, where others have all the room.
    pub fn keep(
        self: &Arc<Self>,
        principal: &Principal,
        run: ActiveRun,
    ) -> Result<String, (Box<ActiveRun>, String)> {
        let memory = LEAST_MEMORY + run.memory();
        let handle = Uuid::new_v4().simple().to_string();
        let mut runs = self.lock();
        let ended = match self.make_room(&mut runs, principal, memory) {
            Ok(ended) => ended,
            Err(full) => return Err((Box::new(run), full)),
        };
        run.pause.begin();
        run.gate.hold(true);
        let number = runs.values().map(|run| run.number).max().unwrap_or(0) + 1;
        let expiry = self.expire(handle.clone());
        let suspended = Suspended {
            principal: principal.clone(),
            run,
            number,
            memory,
            expiry,
            claims: 0,
        };
        runs.insert(handle.clone(), suspended);
        drop(runs);
        for run in ended {
            run.expiry.abort();
            run.log_end("was ended to make room for a newer one");
        }
        Ok(handle)
    }

    /// Claims the run of this handle, if `check` finds nothing wrong.
    ///
    /// # Errors
    /// When there is no such run of this principal, or with what `check` found; then the handle stays good.
    pub fn claim(
        self: &Arc<Self>,
        principal: &Principal,
        handle: &str,
        check: impl FnOnce(&ActiveRun) -> Result<(), String>,
    ) -> Result<Claim, String> {
        let mut runs = self.lock();
        let suspended = runs
            .get_mut(handle)
            .filter(|suspended| suspended.principal == *principal);
        let suspended = suspended.ok_or_else(|| self.gone())?;
        check(&suspended.run)?;
        suspended.claims += 1;
        Ok(Claim {
            runs: Arc::clone(self),
            handle: handle.to_owned(),
            pause: Arc::clone(&suspended.run.pause),
        })
    }

    /// Whether a run of this principal waits under a handle.
    #[must_use]
    pub fn has(&self, principal: &Principal, handle: &str) -> bool {
        let runs = self.lock();
        let suspended = runs.get(handle);
        suspended.is_some_and(|suspended| suspended.principal == *principal)
    }

    /// Why a handle is not good.
    fn gone(&self) -> String {
        format!(
            "no run waits under this handle: it was used already (a handle is good once, and each answer brings \
             a new one), or it has expired (after {}), or the run was ended to make room",
            humantime::format_duration(self.limits.expiry)
        )
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out as many of the principal's oldest runs as it takes to make room for one more.
    ///
    /// # Errors
    /// When even without all of them there would be none; then all stay.
    fn make_room(
        &self,
        runs: &mut HashMap<String, Suspended>,
        principal: &Principal,
        memory: u64,
    ) -> Result<Vec<Suspended>, String> {
        let limits = &self.limits;
        let mut own: Vec<(u64, String, u64)> = runs
            .iter()
            .filter(|(_, run)| run.principal == *principal && run.claims == 0)
            .map(|(handle, run)| (run.number, handle.clone(), run.memory))
            .collect();
        own.sort_unstable();
        let is_own = |run: &&Suspended| run.principal == *principal;
        let mut of_principal = runs.values().filter(is_own).count();
        let mut count = runs.len();
        let mut held: u64 = runs.values().map(|run| run.memory).sum();
        let mut oldest = Vec::new();
        let mut own = own.into_iter();
        loop {
            let is_crowded = count >= limits.runs || of_principal >= limits.of_principal;
            if !is_crowded && held.saturating_add(memory) <= limits.memory {
                break;
            }
            let Some((_, handle, its_memory)) = own.next() else {
                return Err(self.full(is_crowded, memory));
            };
            (count, of_principal, held) = (count - 1, of_principal - 1, held - its_memory);
            oldest.push(handle);
        }
        Ok(oldest
            .iter()
            .filter_map(|handle| runs.remove(handle))
            .collect())
    }

    /// Why there is no room for a run of this size.
    fn full(&self, is_crowded: bool, memory: u64) -> String {
        if is_crowded {
            return format!(
                "{} runs wait for the results of tool calls or for their turn to go on, and more may not \
                 (--max-suspended-runs)",
                self.limits.runs
            );
        }
        format!(
            "the run holds {} of memory; the runs that wait for the results of tool calls may hold {} together \
             (--max-suspended-memory)",
            bytesize::ByteSize(memory),
            bytesize::ByteSize(self.limits.memory)
        )
    }

    fn expire(self: &Arc<Self>, handle: String) -> AbortHandle {
        let runs = Arc::downgrade(self);
        let expiry = self.limits.expiry;
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(expiry).await;
                let Some(runs) = runs.upgrade() else { return };
                let mut runs = runs.lock();
                if runs.get(&handle).is_some_and(|run| run.claims > 0) {
                    continue;
                }
                let expired = runs.remove(&handle);
                drop(runs);
                if let Some(expired) = expired {
                    expired.log_end("expired");
                }
                return;
            }
        });
        task.abort_handle()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Suspended>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Waits for a slot and takes the run. Until it has one it counts as suspended: so those that wait for
    /// their turn never hold what those before them need.
    ///
    /// # Errors
    /// When another claim was faster.
    pub async fn take(self) -> Result<ActiveRun, String> {
        let permit = self.pause.slot().await;
        let taken = self.runs.lock().remove(&self.handle);
        let suspended = taken.ok_or_else(|| self.runs.gone())?;
        suspended.expiry.abort();
        suspended.run.pause.end(permit);
        suspended.run.gate.hold(false);
        Ok(suspended.run)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(suspended) = self.runs.lock().get_mut(&self.handle) {
            suspended.claims = suspended.claims.saturating_sub(1);
        }
    }
}
