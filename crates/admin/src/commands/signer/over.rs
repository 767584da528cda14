//! `freehold sign --over`: signs anew what a change of signers ended, so that it counts again.

use operate::signer::over;
use operate::signer::over::Ending;
use operate::trust::adopted::bounded;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::{Left, leave, of_org, told};

#[derive(Serialize)]
struct Over {
    over: Vec<Ending>,
    #[serde(flatten)]
    pending: Left,
}

pub async fn run(common: &Common, yes: bool) -> Result<(), Failure> {
    let doing = "could not carry anything over";
    let (mut session, keys) = common.signing_session(doing).await?;
    let over = over::ended(&mut session).await.during(doing)?;
    if over.is_empty() {
        let nothing = Over { over, pending: Left::default() };
        show(common.json, &nothing, || "nothing that is still open ended with a change of signers".to_owned());
        return Ok(());
    }
    if !common.json {
        eprintln!("the signers of now have not signed:");
        for line in bounded(&over.iter().map(Ending::in_words).collect::<Vec<_>>()) {
            eprintln!("  {line}");
        }
    }
    confirm(yes, doing, &of_org(common, &session.known, "Sign them anew?"))?;
    let made = over::sign(&mut session, &keys, &over).await.during(doing)?;
    let pending = leave(common, doing, &session.known, &made)?;
    let result = Over { over, pending };
    show(common.json, &result, || {
        told(result.pending.waiting(), || format!("{} count again, as they were made", result.over.len()))
    });
    Ok(())
}
