# Run by a systemd that is the first process: from an invite to a service that outlives kill -9, and back to nothing.
set -eu

so() { # WORDS COMMAND ...
    words=$1
    shift
    "$@" || {
        echo "NOT SO: $words"
        systemctl --no-pager status freehold-node@harbor || :
        journalctl --no-pager -n 50 || :
        exit 1
    }
    echo "so: $words"
}
until_so() {
    words=$1
    shift
    for _ in $(seq 300); do
        if "$@" 2>/dev/null; then
            echo "so: $words"
            return
        fi
        sleep 0.1
    done
    so "$words" false
}
freehold() { /trial/freehold "$@" --home /trial/home; }
pid() { systemctl show -P MainPID "freehold-node@$1"; }
agent_runs() { freehold-node status --as "$1" --json | grep -q '"running": true'; }
is_another() { [ "$(pid harbor)" != "$1" ] && [ "$(pid harbor)" != 0 ]; }
# The line itself, with more words for its script.
line() { # NAME WORD ...
    rm -f /trial/line
    freehold invite create --name "$1" --format line --out /trial/line >/dev/null
    shift
    sed -i "s|)\$| $*)|" /trial/line
    sh /trial/line
}

freehold found harbor --unprotected --node quay --advertise 127.0.0.1:7443 >/dev/null
systemd-run --quiet --unit=gateway /trial/freehold serve --listen 127.0.0.1:7443 --home /trial/home
until_so 'the gateway answers' curl --insecure --silent --output /dev/null https://127.0.0.1:7443/

freehold release add /trial/freehold-node >/dev/null

umask 077
line web-1 --name web-1
so 'the agent is there' test "$(stat -c %a /usr/local/bin/freehold-node)" = 755
so 'other programs may read the trust' test "$(stat -c %a /var/lib/freehold/harbor/trust/identity.pem)" = 644
so 'the unit is there' test -f /etc/systemd/system/freehold-node@harbor.service
so 'others may read it' test "$(stat -c %a /etc/systemd/system/freehold-node@harbor.service)" = 644
so 'it runs' systemctl is-active --quiet freehold-node@harbor
so 'it starts with the machine' systemctl is-enabled --quiet freehold-node@harbor
until_so 'the agent answers' agent_runs harbor

first=$(pid harbor)
sh /trial/line
freehold-node service install --as harbor
so 'neither a second paste nor a second install disturbs anybody' test "$(pid harbor)" = "$first"

line web-2 --name web-2 --as harbor-2
until_so 'the second scope has an agent of its own' agent_runs harbor-2
so 'an agent sees its own scope alone' test "$(ls -A "/proc/$(pid harbor)/root/var/lib/freehold")" = harbor
so 'it can only let its tunnel be nobody, and end it' grep -q '^CapBnd:[[:space:]]*0*e0$' "/proc/$(pid harbor)/status"
so 'it may write its scope alone' sh -c "! touch /proc/$(pid harbor)/root/etc/x 2>/dev/null"

kill -9 "$first"
until_so 'another one took its place after kill -9' is_another "$first"
until_so 'it answers' agent_runs harbor
so 'the other scope did not notice' systemctl is-active --quiet freehold-node@harbor-2

echo '# changed' >>/etc/systemd/system/freehold-node@harbor.service
second=$(pid harbor)
freehold-node service install --as harbor
so 'a unit that was changed is put right, and its agent is a new one' is_another "$second"

second=$(pid harbor)
line web-3 --reinstall
so 'after a new agent was put in, it is the new one that runs' is_another "$second"
until_so 'it answers, as before' agent_runs harbor

# Something is published: at home in the second scope, `ann` reads a page of the first.
mkdir /trial/pages /trial/fleet
echo 'what the harbor knows' >/trial/pages/index.html
systemd-run --quiet --unit=pages busybox httpd -f -p 127.0.0.1:8080 -h /trial/pages
cat >/trial/fleet/fleet.yaml <<END
org: {name: harbor, id: $(freehold org list --json | sed -n 's/.*"org_id": "\([^"]*\)".*/\1/p')}
users: {ann: {roles: operator, nodes: web-2}}
roles: {operator: {allow: pages}}
groups: [pages]
nodes:
  quay:
  web-1: {address: "127.0.0.1:7444"}
  web-2:
services:
  wiki: {at: web-1, addr: "127.0.0.1:8080", groups: pages}
END
freehold publish /trial/fleet --yes >/dev/null
socks() { freehold-node port socks --as harbor-2; }
page() { curl --silent --max-time 10 --socks5-hostname "127.0.0.1:$(socks)" http://wiki.harbor.internal/; }
reads() { [ "$(page)" = 'what the harbor knows' ]; }
tunnel() { tr -d ' ' <"/proc/$(pid harbor)/task/$(pid harbor)/children"; }
until_so 'a page is read by name' reads
first=$(tunnel)
so 'its tunnel is nobody' grep -q '^Uid:\([[:space:]]*65534\)\{4\}$' "/proc/$first/status"
so 'it gets no privileges' grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$first/status"
so 'it has none' grep -q '^CapEff:[[:space:]]*0*$' "/proc/$first/status"

systemctl restart freehold-node@harbor
until_so 'after a restart the page is read again' reads
so 'by another tunnel' test "$(tunnel)" != "$first" -a ! -e "/proc/$first"
kill -9 "$(pid harbor)"
until_so 'after kill -9 too' reads

first=$(tunnel)
processes() { grep -ls 'freehold-node@harbor\.service' /proc/[0-9]*/cgroup | wc -l; }
so 'there are two processes, agent and tunnel' test "$(processes)" = 2
systemctl stop freehold-node@harbor
so 'none is left when it is stopped' test "$(processes)" = 0 -a ! -e "/proc/$first"
so 'nobody reads the page then' sh -c "! curl --silent --max-time 10 --socks5-hostname 127.0.0.1:$(socks) http://wiki.harbor.internal/"
systemctl start freehold-node@harbor
until_so 'it is read when it runs again' reads

line web-3 --uninstall --as harbor-2
so 'the unit is gone' test ! -e /etc/systemd/system/freehold-node@harbor-2.service
so 'nothing of it runs' sh -c '! systemctl is-active --quiet freehold-node@harbor-2'
so 'the other one runs' systemctl is-active --quiet freehold-node@harbor
so 'the agent is still there' test -x /usr/local/bin/freehold-node

freehold node revoke web-1 --yes >/dev/null
until_so 'a revoked machine is not started again and again' systemctl is-failed --quiet freehold-node@harbor
freehold-node leave --local --yes --as harbor
line web-3 --uninstall --as harbor
so 'nothing is left' test ! -e /usr/local/bin/freehold-node -a ! -e /etc/systemd/system/freehold-node@harbor.service
so 'and no folder' test ! -e /var/lib/freehold
echo 'ALL SO'
