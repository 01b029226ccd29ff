//! Reads the environments of many processes, none of which can block the others.
//!
//! A process that keeps its memory map locked blocks every reader of its environment, uninterruptibly. So our own
//! threads read, and a stuck thread is abandoned until the process releases the lock or ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread, vec};

use super::mark::Mark;
use super::stat::Stat;

/// Once each process has a reader, those without a result after this time count as unclear.
const LIMIT: Duration = Duration::from_secs(1);
/// After this time without any result another thread continues with the next process.
const STALL: Duration = Duration::from_millis(50);
/// Agents decide how many processes block their readers; at most this many threads wait for them.
const MOST_STUCK: usize = 1024;
/// Enough for a thread that only reads.
const STACK: usize = 128 * 1024;

/// The processes that a thread is currently reading.
static READING: Claims = Claims(Mutex::new(BTreeSet::new()));

/// The marks of these processes by pid. A process that blocks its reader is unclear. Processes without an available
/// thread are unread, which is no error here: the others can still be ended.
pub(super) fn marks(processes: Vec<Stat>, key: &str) -> io::Result<HashMap<u32, Mark>> {
    let key = key.to_owned();
    read_all(processes, &READING, LIMIT, move |pid| Mark::read(pid, &key))
}

fn read_all(
    processes: Vec<Stat>,
    claims: &'static Claims,
    limit: Duration,
    read: impl Fn(u32) -> io::Result<Mark> + Send + Sync + 'static,
) -> io::Result<HashMap<u32, Mark>> {
    let mut marks: HashMap<u32, Mark> = processes.iter().map(|stat| (stat.pid, Mark::Unclear)).collect();
    let mut n_left = processes.len();
    let queue = Arc::new(Queue { processes: Mutex::new(processes.into_iter()), claims, read });
    let (sender, results) = channel();
    queue.start_reader(&sender)?;
    let mut n_readers = 1;
    let mut last_result = Instant::now();
    while n_left > 0 {
        match results.recv_timeout(STALL) {
            Ok((pid, mark)) => {
                marks.insert(pid, mark?);
                n_left -= 1;
                last_result = Instant::now();
            }
            Err(_no_result) => {
                let n_started = queue.start_readers(n_readers, &sender);
                n_readers += n_started;
                if n_started == 0 && last_result.elapsed() >= limit {
                    break;
                }
            }
        }
    }
    // The machine has no thread left for these.
    marks.extend(queue.left().by_ref().map(|stat| (stat.pid, Mark::Unread)));
    Ok(marks)
}

type Results = Sender<(u32, io::Result<Mark>)>;

/// The remaining processes, shared by the reading threads.
struct Queue<R> {
    processes: Mutex<vec::IntoIter<Stat>>,
    claims: &'static Claims,
    read: R,
}

impl<R: Fn(u32) -> io::Result<Mark> + Send + Sync + 'static> Queue<R> {
    fn start_reader(self: &Arc<Self>, results: &Results) -> io::Result<()> {
        let (queue, results) = (Arc::clone(self), results.clone());
        let thread = thread::Builder::new().name("process-reader".to_owned()).stack_size(STACK);
        thread.spawn(move || queue.run(&results))?;
        Ok(())
    }

    /// Starts as many threads as there is work for; returns their number. If the machine has no thread left, the
    /// running ones continue.
    fn start_readers(self: &Arc<Self>, most: usize, results: &Results) -> usize {
        let wanted = most.min(self.left().len());
        (0..wanted).take_while(|_| self.start_reader(results).is_ok()).count()
    }

    /// Ends early once no caller waits for results.
    fn run(&self, results: &Results) {
        while let Some(stat) = self.next() {
            if results.send((stat.pid, self.mark(&stat))).is_err() {
                return;
            }
        }
    }

    fn mark(&self, stat: &Stat) -> io::Result<Mark> {
        match self.claims.claim(stat) {
            Claimed::Granted(_claim) => (self.read)(stat.pid),
            Claimed::Stuck => Ok(Mark::Unclear),
            Claimed::Full => Ok(Mark::Unread),
        }
    }

    fn next(&self) -> Option<Stat> {
        self.left().next()
    }

    fn left(&self) -> MutexGuard<'_, vec::IntoIter<Stat>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The processes that threads are reading, by pid and start time.
struct Claims(Mutex<BTreeSet<(u32, u64)>>);

impl Claims {
    fn claim(&'static self, stat: &Stat) -> Claimed {
        let process = (stat.pid, stat.start_time);
        let mut claimed = self.claimed();
        if claimed.contains(&process) {
            return Claimed::Stuck;
        }
        if claimed.len() >= MOST_STUCK {
            return Claimed::Full;
        }
        claimed.insert(process);
        Claimed::Granted(Claim { claims: self, process })
    }

    fn claimed(&self) -> MutexGuard<'_, BTreeSet<(u32, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a claim.
enum Claimed {
    Granted(Claim),
    /// A thread is stuck reading it.
    Stuck,
    /// Too many threads are stuck.
    Full,
}

/// The exclusive right to read one process.
struct Claim {
    claims: &'static Claims,
    process: (u32, u64),
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.claimed().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pids: std::ops::Range<u32>) -> Vec<Stat> {
        let stat = Stat {
            pid: 0,
            parent: 0,
            group: 0,
            session: 0,
            start_time: 1,
            is_running: true,
            is_of_kernel: false,
        };
        pids.map(|pid| Stat { pid, ..stat }).collect()
    }

    fn claims() -> &'static Claims {
        Box::leak(Box::new(Claims(Mutex::default())))
    }

    /// A reader of processes that never returns for those below this pid.
    fn read(
        n_stuck: u32,
        pids: std::ops::Range<u32>,
        claims: &'static Claims,
    ) -> io::Result<HashMap<u32, Mark>> {
        // A loaded machine delays readers too, which is not tested here.
        read_all(stats(pids), claims, 5 * LIMIT, move |pid| {
            if pid < n_stuck {
                loop {
                    thread::park();
                }
            }
            Ok(Mark::Absent)
        })
    }

    #[test]
    fn processes_that_hold_up_their_readers_hold_up_no_other_process() {
        let (n_stuck, claims) = (30, claims());
        for _ in 0..2 {
            let marks = read(n_stuck, 0..40, claims).unwrap();
            let unclear = marks.iter().filter(|(_, mark)| **mark == Mark::Unclear).map(|(pid, _)| *pid);
            assert_eq!(unclear.collect::<BTreeSet<u32>>(), (0..n_stuck).collect());
            assert_eq!(claims.claimed().len(), 30);
        }
    }

    fn count(marks: &HashMap<u32, Mark>, wanted: &Mark) -> usize {
        marks.values().filter(|mark| *mark == wanted).count()
    }

    #[test]
    fn a_hundred_stuck_processes_leave_all_others_read() {
        let claims = claims();
        let marks = read(100, 0..200, claims).unwrap();
        let counts = [Mark::Unclear, Mark::Unread, Mark::Absent].map(|mark| count(&marks, &mark));
        assert_eq!(counts, [100, 0, 100]);
    }

    #[test]
    fn too_many_stuck_processes_leave_the_rest_unread_and_fail_nothing() {
        let claims = claims();
        // Threads that are stuck elsewhere.
        claims.claimed().extend((0..MOST_STUCK).map(|pid| (pid as u32, 0)));
        let marks = read(0, 2_000..2_003, claims).unwrap();
        assert_eq!(count(&marks, &Mark::Unread), 3);
    }
}
