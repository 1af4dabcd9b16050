"""The database schema and its migrations.

The version is SQLite's user_version: the number of migrations applied. A migration is never edited once it is
released; a new one is appended. A database written by a newer warpdeck is refused.
"""

WHOLE_JOB = -1
"""Value of the column `step` for the job as a whole."""
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE requests (array_job_id INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY,
        array_job_id INTEGER NOT NULL,
        user TEXT NOT NULL,
        state TEXT NOT NULL,
        finished INTEGER NOT NULL,
        submit_at REAL NOT NULL,
        end_at REAL,
        data BLOB NOT NULL
    );
    CREATE INDEX jobs_open ON jobs (id) WHERE finished = 0;
    CREATE INDEX jobs_ended ON jobs (end_at) WHERE finished = 1;
    CREATE INDEX jobs_user ON jobs (user, end_at) WHERE finished = 1;
    CREATE INDEX jobs_array ON jobs (array_job_id);
    CREATE TABLE nodes (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE journal (seq INTEGER PRIMARY KEY, at REAL NOT NULL, job_id INTEGER NOT NULL, text TEXT NOT NULL);
    CREATE INDEX journal_job ON journal (job_id);
    """,
    """
    CREATE TABLE usage (
        account TEXT NOT NULL,
        user TEXT NOT NULL,
        qos TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (account, user, qos)
    ) WITHOUT ROWID;
    """,
    "CREATE TABLE reservations (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;",
    """
    CREATE TABLE curves (
        job_id INTEGER NOT NULL,
        node TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (job_id, node)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE steps (
        job_id INTEGER NOT NULL,
        restarts INTEGER NOT NULL,
        number INTEGER NOT NULL,
        finished INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (job_id, restarts, number)
    ) WITHOUT ROWID;
    CREATE INDEX steps_open ON steps (job_id) WHERE finished = 0;
    """,
    "ALTER TABLE jobs ADD COLUMN request_key INTEGER;",
    """
    ALTER TABLE curves RENAME TO curves_of_jobs;
    CREATE TABLE curves (
        job_id INTEGER NOT NULL,
        step INTEGER NOT NULL,
        node TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (job_id, step, node)
    ) WITHOUT ROWID;
    INSERT INTO curves SELECT job_id, -1, node, data FROM curves_of_jobs;
    DROP TABLE curves_of_jobs;
    """,
    """
    CREATE TABLE past (
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL,
        array_job_id INTEGER NOT NULL,
        name TEXT NOT NULL,
        user TEXT NOT NULL,
        account TEXT NOT NULL,
        partition TEXT NOT NULL,
        qos TEXT NOT NULL,
        state TEXT NOT NULL,
        short TEXT NOT NULL,
        reason TEXT NOT NULL,
        node_list TEXT NOT NULL,
        nodes INTEGER NOT NULL,
        cpus INTEGER NOT NULL,
        gpus INTEGER NOT NULL,
        mem_bytes INTEGER NOT NULL,
        submit_at REAL NOT NULL,
        end_at REAL NOT NULL,
        ran_s REAL NOT NULL,
        util_pct REAL,
        idle_pct REAL
    );
    CREATE INDEX past_end ON past (end_at);
    CREATE INDEX past_user ON past (user, end_at);
    """,
    """
    CREATE TABLE runs (
        job_id INTEGER NOT NULL,
        restarts INTEGER NOT NULL,
        array_job_id INTEGER NOT NULL,
        request_key INTEGER,
        user TEXT NOT NULL,
        submit_at REAL NOT NULL,
        end_at REAL NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (job_id, restarts)
    ) WITHOUT ROWID;
    CREATE INDEX runs_end ON runs (end_at);
    """,
    """
    ALTER TABLE past ADD COLUMN sweep TEXT NOT NULL DEFAULT '';
    DELETE FROM meta WHERE key = 'past_filled';
    """,
    """
    CREATE TABLE conditions (
        node TEXT NOT NULL,
        at REAL NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (node, at)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE set_aside (
        seq INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        source TEXT NOT NULL,
        key TEXT NOT NULL,
        reason TEXT NOT NULL,
        row BLOB NOT NULL
    );
    """,
    """
    CREATE TABLE made (
        uid INTEGER NOT NULL,
        nonce TEXT NOT NULL,
        at REAL NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (uid, nonce)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE purged (
        end_at REAL NOT NULL,
        user TEXT NOT NULL,
        account TEXT NOT NULL,
        partition TEXT NOT NULL,
        qos TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        jobs INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        cpu_s REAL NOT NULL,
        gpu_s REAL NOT NULL,
        measured_s REAL NOT NULL,
        used_s REAL NOT NULL,
        wasted_s REAL NOT NULL,
        PRIMARY KEY (end_at, user, account, partition, qos, state, reason)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE request_parts (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        uid INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        size INTEGER NOT NULL,
        content BLOB NOT NULL
    );
    CREATE UNIQUE INDEX request_parts_key ON request_parts (sha256, uid);
    CREATE INDEX request_parts_user ON request_parts (uid, size);
    ALTER TABLE requests ADD COLUMN parts TEXT;
    CREATE INDEX requests_parts ON requests (parts) WHERE parts IS NOT NULL;
    """,
)
"""Each entry raises the schema version by one."""
