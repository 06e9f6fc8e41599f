//! Answers to who asks for the state of the service: `status` over a Unix socket, metrics over HTTP.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::ServiceError;

/// The socket that `status` asks; its file is removed with it.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens at a path, for its owner only. A socket that nobody listens at is replaced.
pub(crate) fn control_socket(path: &Path) -> Result<Control, ServiceError> {
    let system = |error| ServiceError::System { what: format!("service.control {}", path.display()), error };
    match UnixStream::connect(path) {
        Ok(_) => return Err(ServiceError::Taken(path.display().to_string())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(system)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(system)?;
    let control = Control { listener, path: path.to_owned() };
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(system)?;
    control.listener.set_nonblocking(true).map_err(system)?;
    Ok(control)
}

/// Asks a running service for its state.
pub(crate) fn ask(path: &Path) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut state = String::new();
    socket.read_to_string(&mut state)?;
    Ok(state)
}

/// Answers all who ask now.
pub(crate) fn serve_status(listener: &UnixListener, state: impl Fn() -> String) {
    for _ in 0..AT_ONCE {
        let Ok((mut socket, _)) = listener.accept() else { return };
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_write_timeout(Some(PATIENCE));
        // Who does not read has no answer.
        let _ = socket.write_all(state().as_bytes());
    }
}

/// Answers all requests for metrics that have arrived.
pub(crate) fn serve_metrics(listener: &TcpListener, metrics: impl Fn() -> String) {
    for _ in 0..AT_ONCE {
        let Ok((mut socket, _)) = listener.accept() else { return };
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(Some(PATIENCE));
        let _ = socket.set_write_timeout(Some(PATIENCE));
        let mut request = [0; 4096];
        let received = loop {
            match socket.read(&mut request) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        let Ok(length) = received else { continue };
        let (status, body) = if request[..length].starts_with(b"GET /metrics ") {
            ("200 OK", metrics())
        } else {
            ("404 Not Found", "metrics are at /metrics\n".to_owned())
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = socket.write_all(format!("{head}{body}").as_bytes());
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Answers before signals have their turn.
const AT_ONCE: usize = 8;
