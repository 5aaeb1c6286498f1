//! Running compilers, which can take minutes: to their end, or until they are cancelled.

use crate::Error;
use natmix::observe::Cancel;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Time between two looks at whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command and returns what it has written. It ends early, with all that it has started, if it is cancelled.
pub(crate) fn output(command: &mut Command, cancel: Option<&Cancel>) -> Result<Output, Error> {
    let program = PathBuf::from(command.get_program());
    let ran = match cancel {
        None => command.output().map(Some),
        Some(cancel) => until_cancelled(command, cancel),
    };
    match ran {
        Ok(Some(output)) => Ok(output),
        Ok(None) => Err(Error::Cancelled),
        Err(source) => Err(Error::Run { command: program, source }),
    }
}

fn until_cancelled(command: &mut Command, cancel: &Cancel) -> io::Result<Option<Output>> {
    // A compiler is several processes: as a group of their own they can be ended together.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if cancel.is_cancelled() {
            end(&mut child);
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK);
    };
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    Ok(status.map(|status| Output { status, stdout, stderr }))
}

/// Reads to the end in a thread of its own: a full pipe would stop the command.
fn read(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        bytes
    })
}

/// Ends a command and all that it has started.
fn end(child: &mut Child) {
    let group = format!("kill -s KILL -- -{}", child.id());
    let ended = Command::new("sh").args(["-c", &group]).stderr(Stdio::null()).status();
    if !ended.is_ok_and(|status| status.success()) {
        // If it has ended by itself there is nothing to do.
        let _ = child.kill();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn all_that_is_written_is_returned() {
        // More than a pipe holds.
        let text = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        for cancel in [None, Some(Cancel::default())] {
            let out = output(&mut shell(text), cancel.as_ref()).unwrap();
            assert_eq!((out.stdout.len(), out.stderr.len(), out.status.code()), (300_000, 200_000, Some(3)));
        }
        let missing = output(&mut Command::new("no-such-command"), Some(&Cancel::default()));
        assert!(matches!(missing, Err(Error::Run { .. })), "{missing:?}");
    }

    #[test]
    fn a_cancelled_command_ends_with_its_children() {
        let cancel = Cancel::default();
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                cancel.cancel();
            });
            // The child holds the pipe: were it left alone, reading would take a minute.
            let out = output(&mut shell("sleep 60 & wait"), Some(&cancel));
            assert!(matches!(out, Err(Error::Cancelled)), "{out:?}");
        });
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
