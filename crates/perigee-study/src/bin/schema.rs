//! Writes the generated schemas: `schema FOLDER [REFERENCE]`, the folders `schema/` and `docs/reference/`.

#![allow(clippy::disallowed_methods, reason = "a program that writes the files it is told to")]

use std::process::ExitCode;
use std::{env, fs, io};

use perigee_study::schema;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        [folder] => write_schemas(folder),
        [folder, reference] => write_schemas(folder).and_then(|()| update_pages(reference)),
        _ => Err(io::Error::other("usage: schema FOLDER [REFERENCE]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("schema: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_schemas(folder: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(format!("{folder}/study.json"), schema::study_json())?;
    fs::write(format!("{folder}/profile.json"), schema::profile_json())?;
    fs::write(format!("{folder}/results.json"), schema::results_json())?;
    fs::write(format!("{folder}/results.md"), schema::results_markdown())
}

fn update_pages(folder: &str) -> io::Result<()> {
    for page in schema::PAGES {
        let path = format!("{folder}/{page}");
        let text = fs::read_to_string(&path)?;
        let updated = schema::page_markdown(&text).ok_or_else(|| {
            io::Error::other(format!("{path}: a `<!-- keys: NAME -->` has no `<!-- end -->`, or names no table"))
        })?;
        fs::write(&path, updated)?;
    }
    Ok(())
}
