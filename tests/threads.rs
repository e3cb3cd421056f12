//! Promise: executors, pools and threads do their work in place; what cannot work that way says so.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, kind, structured, text, tool};

const SQUARE: &str =
    "def square(x):\n    if x == 3:\n        raise ValueError('three')\n    return x * x\n";

/// The value of a program that starts with `square`.
fn value(client: &mut Client, code: &str) -> Value {
    let result = client.run(&format!("{SQUARE}{code}"));
    assert_eq!(kind(&result), "none", "{code}: {}", text(&result));
    structured(&result)["return_value"].clone()
}

#[test]
fn executors_run_what_is_submitted_in_order_with_the_right_results_and_exceptions() {
    let mut client = Client::start(&[]);
    for executor in ["ThreadPoolExecutor", "ProcessPoolExecutor"] {
        let with = |body: &str| {
            format!("from concurrent.futures import *\nwith {executor}(4) as pool:\n    {body}")
        };
        let cases = [
            (
                "result = list(pool.map(square, [1, 2, 4]))",
                json!([1, 4, 16]),
            ),
            (
                "result = list(pool.map(pow, [2, 3], [3, 2], timeout=5, chunksize=2))",
                json!([8, 9]),
            ),
            (
                "result = [f.result() for f in [pool.submit(square, i) for i in range(3)]]",
                json!([0, 1, 4]),
            ),
            (
                "result = [str(f.exception() or f.result()) for f in as_completed([pool.submit(square, i) for i in (5, 3, 4)])]",
                json!(["25", "three", "16"]),
            ),
            (
                "done, open = wait([pool.submit(square, i) for i in (1, 2)]); result = [len(done), len(open)]",
                json!([2, 0]),
            ),
            (
                "order = []; [pool.submit(order.append, i) for i in range(5)]; result = order",
                json!([0, 1, 2, 3, 4]),
            ),
            (
                "called = []; f = pool.submit(square, 2); f.add_done_callback(lambda f: called.append(f.result())); result = called",
                json!([4]),
            ),
            (
                "f = pool.submit(square, 3); result = [f.done(), f.cancelled(), f.cancel(), type(f.exception()).__name__]",
                json!([true, false, false, "ValueError"]),
            ),
        ];
        for (body, expected) in cases {
            let code = format!("{}\nresult", with(body));
            assert_eq!(value(&mut client, &code), expected, "{executor}: {body}");
        }
        let result = client.run(&format!(
            "{SQUARE}{}",
            with("list(pool.map(square, [2, 3]))")
        ));
        assert_eq!(structured(&result)["error"]["type"], "ValueError");
        let traceback = structured(&result)["error"]["traceback"].as_str().unwrap();
        assert!(traceback.contains("line 3, in square"), "{traceback}");
    }
}

#[test]
fn executors_refuse_what_they_always_refused() {
    let mut client = Client::start(&[]);
    let code = "\
from concurrent.futures import *\nfrom concurrent.futures.thread import BrokenThreadPool\nfound = []\n\
def attempt(work):\n    try:\n        work()\n    except Exception as error:\n        found.append(f'{type(error).__name__}: {error}')\n\
attempt(lambda: ThreadPoolExecutor(0))\n\
attempt(lambda: ThreadPoolExecutor(initializer=3))\n\
pool = ThreadPoolExecutor()\npool.shutdown()\nattempt(lambda: pool.submit(print))\n\
broken = ThreadPoolExecutor(initializer=lambda: 1 / 0)\nattempt(broken.submit(print).result)\nattempt(lambda: broken.submit(print))\n\
found";
    let result = value(&mut client, code);
    let found: Vec<&str> = result
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(found[0], "ValueError: max_workers must be greater than 0");
    assert_eq!(found[1], "TypeError: initializer must be a callable");
    assert_eq!(
        found[2],
        "RuntimeError: cannot schedule new futures after shutdown"
    );
    assert!(found[3].starts_with("BrokenThreadPool: "), "{found:?}");
    assert!(found[4].starts_with("BrokenThreadPool: "), "{found:?}");
}

#[test]
fn tools_can_be_called_from_executors_and_threads() {
    let mut client = Client::start(&[]);
    let code = "\
from concurrent.futures import ThreadPoolExecutor\nimport asyncio, threading\n\
with ThreadPoolExecutor() as pool:\n    found = list(pool.map(fetch, [1, 2, 3]))\n\
threading.Thread(target=lambda: found.append(fetch(n=4))).start()\n\
found.append(await asyncio.to_thread(fetch, n=5))\n\
found.append(await asyncio.get_running_loop().run_in_executor(None, fetch, 6))\n\
found";
    let tools = json!([tool("fetch", json!({"n": {"type": "integer"}}))]);
    let result = client.run_with(code, tools, &mut |call| {
        Some(json!({"result": call["arguments"]["n"].as_i64().unwrap() * 10}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        json!([10, 20, 30, 40, 50, 60]),
        "{}",
        text(&result)
    );
}

#[test]
fn a_loop_may_run_in_a_thread_beside_a_running_one() {
    let mut client = Client::start(&[]);
    let code = "\
import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor\n\
async def main(n):\n    await asyncio.sleep(0.001)\n    return n\n\
with ThreadPoolExecutor() as pool:\n    found = [pool.submit(asyncio.run, main(1)).result()]\n\
found.append(await asyncio.to_thread(asyncio.run, main(2)))\n\
found.append(await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(), asyncio.run, main(3)))\n\
thread = threading.Thread(target=lambda: found.append(asyncio.run(main(4))))\nthread.start()\nthread.join()\n\
found.append(await main(5))\nfound + [asyncio.current_task() is not None]";
    assert_eq!(value(&mut client, code), json!([1, 2, 3, 4, 5, true]));
}

#[test]
fn pools_of_multiprocessing_work_in_place() {
    let mut client = Client::start(&[]);
    for pool in [
        "from multiprocessing import Pool",
        "from multiprocessing.pool import ThreadPool as Pool",
        "from multiprocessing.dummy import Pool",
    ] {
        let code = format!(
            "{pool}\nwith Pool(3) as pool:\n    found = [pool.map(square, [1, 2]), list(pool.imap(square, [4])), pool.starmap(pow, [(2, 3)]),\n        \
             sorted(pool.imap_unordered(square, [5, 6])), pool.apply(square, (7,)), pool.apply_async(square, (8,)).get(timeout=1)]\nfound"
        );
        let expected = json!([[1, 4], [16], [8], [25, 36], 49, 64]);
        assert_eq!(value(&mut client, &code), expected, "{pool}");
    }
    let result = client.run(&format!(
        "{SQUARE}import multiprocessing\nmultiprocessing.Pool(2).map(square, [3])"
    ));
    assert_eq!(structured(&result)["error"]["message"], "three");
}

#[test]
fn a_thread_runs_when_it_is_started() {
    let mut client = Client::start(&[]);
    let code = "\
import threading\nseen = []\nlocal = threading.local()\nlocal.x = 1\n\
def work(n):\n    current = threading.current_thread()\n    seen.append([n, current.name, current is thread, hasattr(local, 'x'), current.is_alive(), threading.get_ident() == current.ident])\n\
thread = threading.Thread(target=work, args=(1,), name='worker')\nbefore = [thread.is_alive(), thread.ident]\nthread.start()\n\
thread.join()\nthread.join(timeout=1)\n\
class Mine(threading.Thread):\n    def run(self):\n        seen.append(self.name)\n\
Mine(name='mine', daemon=True).start()\n\
[before, seen, thread.is_alive(), thread.ident != threading.get_ident(), threading.active_count(), threading.current_thread().name]";
    assert_eq!(
        value(&mut client, code),
        json!([
            [false, null],
            [[1, "worker", true, false, true, true], "mine"],
            false,
            true,
            1,
            "MainThread"
        ])
    );
}

#[test]
fn work_has_a_context_and_a_thread_of_its_own() {
    let mut client = Client::start(&[]);
    for run in [
        "ThreadPoolExecutor(thread_name_prefix='mine').submit(work).result()",
        "ProcessPoolExecutor().submit(work).result()",
        "Pool().apply(work)",
        "run_in_loop()",
    ] {
        let code = format!(
            "\
import asyncio, contextvars, decimal, threading\nfrom concurrent.futures import *\nfrom multiprocessing import Pool\n\
variable = contextvars.ContextVar('variable', default=0)\nvariable.set(7)\nlocal = threading.local()\nlocal.x = 1\n\
def work():\n    before = variable.get()\n    variable.set(5)\n    decimal.getcontext().prec = 3\n    \
    return [before, hasattr(local, 'x'), threading.current_thread() is threading.main_thread()]\n\
def run_in_loop():\n    async def main():\n        return await asyncio.get_running_loop().run_in_executor(None, work)\n    \
    return asyncio.run(main())\n\
{run} + [variable.get(), decimal.getcontext().prec, threading.current_thread().name]"
        );
        assert_eq!(
            value(&mut client, &code),
            json!([0, false, false, 7, 28, "MainThread"]),
            "{run}"
        );
    }
    let code = "\
import threading\nfrom concurrent.futures import ThreadPoolExecutor\nlocal = threading.local()\n\
def count():\n    local.n = getattr(local, 'n', 0) + 1\n    return [local.n, threading.current_thread().name]\n\
pool = ThreadPoolExecutor(thread_name_prefix='mine')\n\
[pool.submit(count).result(), pool.submit(count).result(), pool.submit(lambda: pool.submit(count).result()).result()[1]]";
    assert_eq!(
        value(&mut client, code),
        json!([[1, "mine_0"], [2, "mine_0"], "mine_0"])
    );
}

#[test]
fn what_a_thread_raises_is_printed_and_the_program_goes_on() {
    let mut client = Client::start(&[]);
    let result = client.run(&format!(
        "{SQUARE}import threading\nthread = threading.Thread(target=square, args=(3,))\nthread.start()\n'after'"
    ));
    assert_eq!(structured(&result)["return_value"], "after");
    let output = structured(&result)["output"].as_str().unwrap();
    assert!(
        output.starts_with("Exception in thread Thread-1 (square):\nTraceback"),
        "{output}"
    );
    assert!(output.ends_with("ValueError: three\n"), "{output}");
    assert_eq!(output.matches("File ").count(), 1, "{output}");
}

#[test]
fn a_wait_that_nothing_can_end_is_refused_in_one_line() {
    let mut client = Client::start(&[]);
    for code in [
        "import queue\nqueue.Queue().get()",
        "import queue\nqueue.SimpleQueue().get()",
        "import queue\nq = queue.Queue(1)\nq.put(1)\nq.put(2)",
        "import threading\nthreading.Event().wait()",
        "import threading\nthreading.Barrier(2).wait()",
        "import threading\nthreading.Semaphore(0).acquire()",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "import threading\nc = threading.Condition()\nwith c:\n    c.wait()",
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nwith lock: pass",
        "from concurrent.futures import Future\nFuture().result()",
        "import threading, queue\nq = queue.Queue()\nthreading.Thread(target=lambda: q.get(), daemon=True).start()",
        "import asyncio\nasync def f(): pass\nc = f()\n\
         try:\n    asyncio.run_coroutine_threadsafe(c, asyncio.new_event_loop()).result()\nfinally:\n    c.close()",
    ] {
        let result = client.run(code);
        let error = &structured(&result)["error"];
        assert_eq!(error["type"], "RuntimeError", "{code}: {}", text(&result));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("would wait for ever"), "{code}: {message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn a_wait_with_a_timeout_lasts_and_fails_as_it_says() {
    let mut client = Client::start(&[]);
    let code = "\
import queue, threading, time\nfrom concurrent.futures import Future\nstart = time.monotonic()\nfound = []\n\
def attempt(work):\n    try:\n        found.append(work())\n    except Exception as error:\n        found.append(type(error).__name__)\n\
attempt(lambda: queue.Queue().get(timeout=0.02))\nattempt(lambda: queue.SimpleQueue().get(timeout=0.02))\n\
attempt(lambda: threading.Event().wait(0.02))\nattempt(lambda: Future().result(0.02))\n\
lock = threading.Lock()\nlock.acquire()\nattempt(lambda: lock.acquire(timeout=0.02))\nattempt(lambda: lock.acquire(False))\n\
found + [time.monotonic() - start >= 0.1]";
    assert_eq!(
        value(&mut client, code),
        json!(["Empty", "Empty", false, "TimeoutError", false, false, true])
    );
}

#[test]
fn processes_and_timers_are_refused_in_one_line() {
    let mut client = Client::start(&[]);
    for (code, hint) in [
        (
            "import multiprocessing\nmultiprocessing.Process(target=print).start()",
            "no processes",
        ),
        (
            "import threading\nthreading.Timer(1, print).start()",
            "use asyncio",
        ),
        (
            "import subprocess\nsubprocess.run(['ls'])",
            "does not support processes",
        ),
    ] {
        let result = client.run(code);
        let message = structured(&result)["error"]["message"]
            .as_str()
            .unwrap()
            .to_lowercase();
        assert!(message.contains(&hint.to_lowercase()), "{code}: {message}");
    }
}

#[test]
fn locks_work_as_they_always_did() {
    let mut client = Client::start(&[]);
    let code = "\
import threading, queue\nlock = threading.Lock()\nfound = []\n\
with lock:\n    found.append(lock.locked())\nfound.append(lock.locked())\n\
try:\n    lock.release()\nexcept RuntimeError as error:\n    found.append(str(error))\n\
try:\n    lock.acquire(False, 1)\nexcept ValueError as error:\n    found.append(str(error))\n\
rlock = threading.RLock()\nwith rlock, rlock:\n    found.append('twice')\n\
q = queue.PriorityQueue()\nq.put(2)\nq.put(1)\nfound.append([q.get(), q.get_nowait(), q.qsize()])\n\
q.task_done()\nq.task_done()\nq.join()\n\
event = threading.Event()\nevent.set()\nfound.append(event.wait())\nfound";
    assert_eq!(
        value(&mut client, code),
        json!([
            true,
            false,
            "release unlocked lock",
            "can't specify a timeout for a non-blocking call",
            "twice",
            [1, 2, 0],
            true
        ])
    );
}

#[test]
fn sleeping_leaves_the_thread_to_other_runs_and_counts_against_the_run() {
    let mut client = Client::start(&["--run-timeout", "10s"]);
    client.run("1");
    // More sleepers than the machine has threads for guests.
    let sleepers: Vec<i64> = (0..50)
        .map(|_| client.start_run(json!({"python_code": "import time\ntime.sleep(3600)"})))
        .collect();
    let result = client.run("sum(range(1000))");
    assert_eq!(structured(&result)["return_value"], 499_500);
    let mut ended = 0;
    while ended < sleepers.len() {
        let message = client
            .receive_within(Duration::from_mins(1))
            .expect("the sleepers end");
        assert_eq!(
            message["result"]["structuredContent"]["error"]["kind"],
            "time_limit"
        );
        let cpu = message["result"]["structuredContent"]["cpu_ms"]
            .as_f64()
            .unwrap();
        assert!(
            cpu < 1000.0,
            "asleep, a run used {cpu} ms of processor time"
        );
        ended += 1;
    }
}
