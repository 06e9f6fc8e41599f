// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the programs, and the files that they name.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// For how long a client that has its file still works, so that its peer hears of the end. What it is measured by is over.
pub const FAREWELL: Duration = Duration::from_millis(100);

/// The words of the command line: `server` or `client`, and `--NAME=VALUE`.
pub struct Options {
    pub is_server: bool,
    values: HashMap<String, String>,
}

impl Options {
    pub fn read() -> Done<Self> {
        let mut words = std::env::args().skip(1);
        let is_server = match words.next().as_deref() {
            Some("server") => true,
            Some("client") => false,
            _ => return Err("say server or client".into()),
        };
        let pair = |word: String| {
            let (name, value) = word.strip_prefix("--")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let values = words.map(|word| pair(word.clone()).ok_or(format!("{word}: write --NAME=VALUE")));
        Ok(Self { is_server, values: values.collect::<Result<_, _>>()? })
    }

    pub fn text(&self, name: &str) -> Done<&str> {
        self.values.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing").into())
    }

    pub fn listen(&self) -> Done<SocketAddr> {
        Ok(self.text("listen")?.parse()?)
    }

    /// Bytes of the flow-control windows; `None`: the stack's own.
    pub fn window(&self) -> Done<Option<u32>> {
        Ok(self.values.get("window").map(|text| text.parse()).transpose()?)
    }

    /// The folder of qlog files; `None`: none are written.
    pub fn qlog(&self) -> Option<String> {
        self.values.get("qlog").cloned()
    }

    /// Address and name of the file that the client asks for.
    pub fn asked(&self) -> Done<(SocketAddr, &str)> {
        let url = self.text("url")?;
        let rest = url.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        let (address, name) = rest.ok_or_else(|| format!("{url}: write https://ADDRESS:PORT/FILE"))?;
        Ok((address.parse()?, name))
    }

    /// The file of a name that a client has sent, directly in the folder that is served.
    pub fn served(&self, name: &[u8]) -> Done<PathBuf> {
        let name = Path::new(std::str::from_utf8(name)?).file_name().ok_or("no name of a file")?;
        Ok(Path::new(self.text("root")?).join(name))
    }

    /// The file that the client writes.
    pub fn output(&self) -> Done<File> {
        Ok(File::create(Path::new(self.text("out")?).join(self.asked()?.1))?)
    }

    pub fn certificates(&self) -> Done<Vec<CertificateDer<'static>>> {
        Ok(CertificateDer::pem_file_iter(self.text("certificate")?)?.collect::<Result<_, _>>()?)
    }

    pub fn key(&self) -> Done<PrivateKeyDer<'static>> {
        Ok(PrivateKeyDer::from_pem_file(self.text("key")?)?)
    }
}
