//! Promise: code reaches nothing of the host, and nothing of another run.

mod support;

use serde_json::json;
use support::{Client, structured, text};

#[test]
fn the_scratch_folder_is_the_working_directory_and_empty_at_the_start() {
    let mut client = Client::start(&[]);
    let code = "import os, tempfile\nbefore = os.listdir('.')\nopen('note.txt', 'w').write('x')\n\
        with tempfile.TemporaryDirectory() as folder: pass\n[os.getcwd(), before, os.listdir('/tmp'), os.path.dirname(folder)]";
    for _ in 0..2 {
        assert_eq!(
            structured(&client.run(code))["return_value"],
            json!(["/tmp", [], ["note.txt"], "/tmp"])
        );
    }
}

#[test]
fn no_file_of_the_host_can_be_reached() {
    let mut client = Client::start(&[]);
    let code = "import os\nfound = []\nos.symlink('/etc', 'link')\n\
        for path in ['/etc/passwd', '../etc/passwd', '../../../../etc/passwd', 'link/passwd', '/proc/self/environ', '/root', '/home', '/dev/sda', '//etc//passwd']:\n    \
        try:\n        open(path).read()\n        found.append(path)\n    except OSError:\n        pass\n[found, sorted(os.listdir('/')), os.listdir('/usr/local/lib')]";
    let result = client.run(code);
    assert_eq!(
        structured(&result)["return_value"],
        json!([[], ["dev", "tmp", "usr"], ["python315.zip"]]),
        "{}",
        text(&result)
    );
}

#[test]
fn the_environment_is_empty_and_there_is_no_network_or_process() {
    let mut client = Client::start_in(&[], &[("CALLGATE_TEST_SECRET", "s3cret")]);
    let code = "import os, socket, subprocess, urllib.request\nproblems = []\n\
        for attempt in [lambda: socket.create_connection(('127.0.0.1', 80)), lambda: subprocess.run(['ls']), lambda: os.fork(), \
        lambda: urllib.request.urlopen('http://127.0.0.1/')]:\n    try:\n        attempt()\n    except Exception as e:\n        problems.append(type(e).__name__)\n\
        ['CALLGATE_TEST_SECRET' in os.environ, 's3cret' in str(os.environ), len(problems)]";
    let result = client.run(code);
    assert_eq!(
        structured(&result)["return_value"],
        json!([false, false, 4]),
        "{}",
        text(&result)
    );
}

#[test]
fn nothing_is_kept_from_run_to_run() {
    let mut client = Client::start(&[]);
    client.run("import json, builtins, os\nx = 5\njson.dumps = None\nbuiltins.print = None\nopen('left', 'w').close()\nos.chdir('/')");
    let result = client.run("import json, os\nprint('fine')\n['x' in globals(), json.dumps([1]), os.listdir('/tmp'), os.getcwd()]");
    assert_eq!(
        structured(&result)["return_value"],
        json!([false, "[1]", [], "/tmp"]),
        "{}",
        text(&result)
    );
    assert_eq!(structured(&result)["output"], "fine\n");
}

#[test]
fn every_run_draws_its_own_random_numbers() {
    let mut client = Client::start(&[]);
    let code = "import random, uuid, secrets, os, numpy as np\n\
        [random.random(), np.random.rand(), np.random.default_rng().random(), uuid.uuid4(), secrets.token_hex(8), os.urandom(8).hex()]";
    let (first, second) = (client.run(code), client.run(code));
    let values = |result: &serde_json::Value| {
        structured(result)["return_value"]
            .as_array()
            .unwrap()
            .clone()
    };
    for (one, other) in values(&first).iter().zip(&values(&second)) {
        assert_ne!(one, other);
    }
    assert_eq!(values(&first).len(), 6);
}

#[test]
fn the_scientific_packages_work() {
    let mut client = Client::start(&[]);
    let code = "import scipy.optimize, sklearn.linear_model, sqlite3, lxml.etree, io\nimport numpy as np\nimport matplotlib\nmatplotlib.use('agg')\n\
        import matplotlib.pyplot as plt\nbuffer = io.BytesIO()\nplt.plot([1, 2]); plt.savefig(buffer)\n\
        root = scipy.optimize.brentq(lambda x: x * x - 2, 0, 2)\n\
        slope = sklearn.linear_model.LinearRegression().fit([[0], [1]], [0, 2]).coef_[0]\n\
        rows = sqlite3.connect(':memory:').execute('select 1 + 1').fetchall()\n\
        [round(root, 3), round(slope, 3), rows, lxml.etree.fromstring('<a><b/></a>')[0].tag, buffer.getvalue()[1:4]]";
    let result = client.run(code);
    assert_eq!(
        structured(&result)["return_value"],
        json!([1.414, 2.0, [[2]], "b", "PNG"]),
        "{}",
        text(&result)
    );
}
