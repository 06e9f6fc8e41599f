//! Writes the generated schemas: `schema FOLDER [REFERENCE]`, the folder `schema/` and the page `docs/reference/study.md`.

#![allow(clippy::disallowed_methods, reason = "a program that writes the files it is told to")]

use std::process::ExitCode;
use std::{env, fs, io};

use perigee_study::schema;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        [folder] => write_schemas(folder),
        [folder, page] => write_schemas(folder).and_then(|()| update_page(page)),
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

fn update_page(page: &str) -> io::Result<()> {
    let text = fs::read_to_string(page)?;
    let updated = schema::study_markdown(&text).ok_or_else(|| {
        io::Error::other(format!("{page}: a `<!-- keys: NAME -->` has no `<!-- end -->`, or names no table"))
    })?;
    fs::write(page, updated)
}
