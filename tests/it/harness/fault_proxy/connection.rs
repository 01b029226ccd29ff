//! One connection through the proxy: read the request's head, then pass it on or let it meet its fault.

use super::head::Head;
use super::{FalseAnswer, ProxyFault, Shared};
use std::io::Result;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How much goes through before the connection ends.
#[derive(Clone, Copy)]
enum Passing {
    Whole,
    /// So much of the answer's body.
    OfAnswer(usize),
    /// The same, and then it does not end.
    OfAnswerThenSilence(usize),
    /// So much of what the client sends after the head.
    OfRequest(usize),
}

/// Serves one request. An error ends the connection, which is all that either side should notice.
pub(super) async fn serve(mut client: TcpStream, shared: Arc<Shared>) -> Result<()> {
    client.set_nodelay(true)?;
    let Some(head) = Head::read(&mut client).await? else { return Ok(()) };
    let host = shared.upstream.as_str();
    match shared.decide(head.method(), head.path()) {
        None => relay(client, forward(head, host).await?, Passing::Whole).await,
        Some(ProxyFault::Delay(delay)) => {
            sleep(delay).await;
            relay(client, forward(head, host).await?, Passing::Whole).await
        }
        Some(ProxyFault::CutBefore) => Ok(()),
        Some(ProxyFault::CutAfter) => carry_out(&mut client, head, host).await,
        Some(ProxyFault::CutInBody { bytes }) => {
            relay(client, forward(head, host).await?, Passing::OfAnswer(bytes)).await
        }
        Some(ProxyFault::SilenceInBody { bytes }) => {
            relay(client, forward(head, host).await?, Passing::OfAnswerThenSilence(bytes)).await
        }
        Some(ProxyFault::CutInRequest { bytes }) => {
            relay(client, forward(head, host).await?, Passing::OfRequest(bytes)).await
        }
        Some(ProxyFault::Stall) => drain(&mut client).await,
        Some(ProxyFault::AnswerBefore(answer)) => answer_falsely(&mut client, &answer).await,
        Some(ProxyFault::AnswerAfter(answer)) => {
            carry_out(&mut client, head, host).await?;
            answer_falsely(&mut client, &answer).await
        }
    }
}

/// Opens a connection to the server and sends what is known of the request.
async fn forward(mut head: Head, host: &str) -> Result<TcpStream> {
    let mut server = TcpStream::connect(host).await?;
    server.set_nodelay(true)?;
    head.readdress(host);
    server.write_all(&head.bytes()).await?;
    server.write_all(&head.body_start).await?;
    Ok(server)
}

/// Copies both ways until one side is through, so upgraded connections and streams just flow.
async fn relay(mut client: TcpStream, mut server: TcpStream, passing: Passing) -> Result<()> {
    let (from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answer = async {
        let (Passing::OfAnswer(bytes) | Passing::OfAnswerThenSilence(bytes)) = passing else {
            return copy(&mut from_server, &mut to_client).await;
        };
        let Some(head) = Head::read(&mut from_server).await? else { return Ok(0) };
        to_client.write_all(&head.bytes()).await?;
        let rest = head.body_start.chain(&mut from_server);
        let passed = copy(&mut rest.take(bytes as u64), &mut to_client).await;
        if matches!(passing, Passing::OfAnswerThenSilence(_)) {
            std::future::pending::<()>().await;
        }
        passed
    };
    let most = if let Passing::OfRequest(bytes) = passing { bytes as u64 } else { u64::MAX };
    let mut request = from_client.take(most);
    tokio::select! {
        sent = copy(&mut request, &mut to_server) => sent.map(drop),
        answered = answer => answered.map(drop),
    }
}

/// Lets the server do what was asked and swallows its answer; the client leaving changes nothing.
async fn carry_out(client: &mut TcpStream, head: Head, host: &str) -> Result<()> {
    let mut server = forward(head, host).await?;
    let (mut from_client, _) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut nowhere = sink();
    let answered = tokio::select! {
        answered = copy(&mut from_server, &mut nowhere) => Some(answered),
        _ = copy(&mut from_client, &mut to_server) => None,
    };
    match answered {
        Some(answered) => answered.map(drop),
        None => copy(&mut from_server, &mut nowhere).await.map(drop),
    }
}

async fn answer_falsely(client: &mut TcpStream, answer: &FalseAnswer) -> Result<()> {
    let FalseAnswer { status, content_type, body } = answer;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} Injected\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    client.write_all(text.as_bytes()).await?;
    client.shutdown().await?;
    // Closing with unread bytes would reset the connection and could take the answer with it.
    drain(client).await
}

/// Reads until the client gives up.
async fn drain(client: &mut TcpStream) -> Result<()> {
    copy(client, &mut sink()).await.map(drop)
}
