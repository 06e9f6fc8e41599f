//! Brings the tables of keys in the reference of the configuration up to date: `reference docs/reference/pep.md`.

use std::{env, fs, io};

fn main() -> io::Result<()> {
    let path = env::args().nth(1).ok_or_else(|| io::Error::other("usage: reference PAGE"))?;
    let page = fs::read_to_string(&path)?;
    let error =
        || io::Error::other(format!("{path}: a `<!-- keys: NAME -->` has no `<!-- end -->`, or names no table"));
    fs::write(&path, perigee_pep::reference(&page).ok_or_else(error)?)
}
