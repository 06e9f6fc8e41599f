//! Files that lines are added to, by other processes too: one that was killed, or that an upgrade has replaced.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt as _;

/// Whether a file ends within a line, which the next one would be glued to; `None`: that cannot be read, as of a pipe.
pub(crate) fn ends_within_line(file: &File) -> Option<bool> {
    let now = file.metadata().ok().filter(Metadata::is_file)?;
    let Some(last) = now.len().checked_sub(1) else { return Some(false) };
    let mut end = [0];
    (file.read_at(&mut end, last).ok()? == 1).then(|| end != *b"\n")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    #[test]
    fn a_line_that_has_no_end_is_seen_where_the_file_may_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        for (text, is_torn) in [("", false), ("{}\n", false), ("{}\n{\"at", true), ("{}", true)] {
            fs::write(&path, text).unwrap();
            let seen = |options: &mut OpenOptions| ends_within_line(&options.append(true).open(&path).unwrap());
            assert_eq!(seen(OpenOptions::new().read(true)), Some(is_torn), "{text}");
            assert_eq!(seen(&mut OpenOptions::new()), Some(false).filter(|_| text.is_empty()));
        }
        assert_eq!(ends_within_line(&File::open("/dev/null").unwrap()), None);
    }
}
