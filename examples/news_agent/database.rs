//! The customers, in a SQLite file that is opened for reading only.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, types::ValueRef};
use serde_json::{Map, Value, json};

/// More rows than this are an error: the program should ask for less.
const MOST_ROWS: usize = 1000;

/// Where the database is; each query opens it.
pub struct Database(PathBuf);

impl Database {
    /// Makes the file from a script.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn create(path: &Path, script: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(script)?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(Self(path.to_owned()))
    }

    /// The rows of one query, as objects.
    ///
    /// # Errors
    /// What SQLite says, in words for whoever wrote the query.
    pub fn query(&self, sql: &str) -> Result<Value, String> {
        let connection = Connection::open_with_flags(&self.0, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| error.to_string())?;
        let mut statement = connection.prepare(sql).map_err(|error| error.to_string())?;
        // `attach` and `vacuum into` reach other files, even here. Neither has columns.
        if !statement.readonly() || statement.column_count() == 0 {
            return Err("only queries are allowed: the database is read-only".to_owned());
        }
        let columns: Vec<String> = statement
            .column_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let rows = statement
            .query_map([], |row| object(&columns, row))
            .map_err(|error| error.to_string())?;
        let rows: Vec<Value> = rows
            .take(MOST_ROWS + 1)
            .collect::<rusqlite::Result<_>>()
            .map_err(|error| error.to_string())?;
        if rows.len() > MOST_ROWS {
            return Err(format!("more than {MOST_ROWS} rows: use `limit`"));
        }
        Ok(Value::Array(rows))
    }
}

fn object(columns: &[String], row: &Row<'_>) -> rusqlite::Result<Value> {
    let mut object = Map::new();
    for (index, name) in columns.iter().enumerate() {
        let value = match row.get_ref(index)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => json!(number),
            ValueRef::Real(number) => json!(number),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => json!(String::from_utf8_lossy(bytes)),
        };
        object.insert(name.clone(), value);
    }
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUSTOMERS: &str = include_str!("../../fixtures/customers.sql");

    #[test]
    fn the_database_answers_queries_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(&folder.path().join("customers.db"), CUSTOMERS).unwrap();
        let copy = folder.path().join("copy.db").display().to_string();
        assert_eq!(
            database.query("select 1 a, 'x' b, null c, 0.5 d"),
            Ok(json!([{"a": 1, "b": "x", "c": null, "d": 0.5}]))
        );
        assert_eq!(
            database.query("select * from customers where 0"),
            Ok(json!([]))
        );
        assert_eq!(
            database.query("select colour").unwrap_err().lines().next(),
            Some("no such column: colour in select colour at offset 7")
        );
        let forbidden = [
            "delete from customers",
            "delete from customers returning id",
            "create table other (id)",
            "select 1; delete from customers",
            "",
            "-- nothing",
            &format!("attach '{copy}' as other"),
            &format!("vacuum into '{copy}'"),
            "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
        ];
        for sql in forbidden {
            database.query(sql).expect_err(sql);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(
            database.query("select count(*) n from customers"),
            Ok(json!([{"n": 25}]))
        );
    }
}
