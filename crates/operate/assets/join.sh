#!/bin/sh
# Makes this machine a member of a Freehold org: fetches the agent, checks it, joins, keeps it running.
#
# It believes only the hashes on its command line. Everything is in functions, and the last line calls the first of
# them: a script that was cut off does nothing. The invite code is on stdin, and only `freehold-node` reads it.
#
# Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused (something is not what the line says it is).

usage() {
    cat <<'END'
Usage: sh join.sh --gateway URL [--gateway URL ...] --root SHA256 [...] --agents SHA256 [OPTION ...] < CODE
       sh join.sh --uninstall [--as SCOPE]

  --gateway URL      https://HOST:PORT of a gateway, or socks5://PROXY:PORT/HOST:PORT; given several times, they are tried
                     in turn
  --root SHA256      hash of a PEM file: the roots by which the gateways before it are believed, and by no others
  --agents SHA256    hash of the list of agents
  --name NAME        this machine's name in the org [default: its host name]
  --label KEY=VALUE  a label that the invite allows; may be repeated
  --role ROLE        a role that the invite allows; may be repeated
  --as SCOPE         keep this org under another name than its own on this machine
  --reinstall        put the agent in again; an enrollment is not touched
  --uninstall        leave the org, remove the service, and the agent if no other org here needs it
  --dry-run          say what would be done, and change nothing
  --help             this text

FREEHOLD_BIN is the folder of the agent [default: /usr/local/bin], FREEHOLD_ROOT the folder of its orgs
[default: /var/lib/freehold for root]. Running it again is safe.
END
}

main() {
    # zsh under its own name splits no words and ends traps early; as sh it is like the others.
    if [ -n "${ZSH_VERSION:-}" ]; then emulate sh; fi
    set -eu
    set -f
    LC_ALL=C
    export LC_ALL
    mask=$(umask)
    umask 077
    gateways='' rootless='' root_hash='' roots='' only='' agents_hash='' scope='' action=install dry='' work=''
    bin=${FREEHOLD_BIN:-/usr/local/bin}
    target=$bin/freehold-node
    left=$#
    while [ "$left" -gt 0 ]; do
        case $1 in
            --gateway | --root | --agents | --as | --name | --label | --role)
                [ "$left" -gt 1 ] || wrong "\`$1\` needs a value"
                case $1 in
                    --gateway) add_gateway "$2" ;;
                    --root) add_root "$(hash_given "$1" "$2")" ;;
                    --agents) agents_hash=$(hash_given "$1" "$2") ;;
                    --as) scope=$2 ;;
                    *) set -- "$@" "$1" "$2" ;; # For `freehold-node join`, behind what is not read yet.
                esac
                shift 2
                left=$((left - 2))
                ;;
            --reinstall) action=reinstall && shift && left=$((left - 1)) ;;
            --uninstall) action=uninstall && shift && left=$((left - 1)) ;;
            --dry-run) dry=yes && shift && left=$((left - 1)) ;;
            --help | -h)
                usage
                exit 0
                ;;
            *) wrong "\`$1\` is not an option of this script" ;;
        esac
    done
    case $bin in
        /*) ;;
        *) wrong "FREEHOLD_BIN must begin with /: $bin" ;;
    esac
    check_scope
    doing='could not remove Freehold from this machine'
    if [ "$action" = uninstall ]; then
        uninstall
        return
    fi
    doing='could not install freehold-node'
    [ -n "$gateways$rootless" ] || wrong 'no --gateway was given'
    # One that was named before all gateways is for those that have none of their own.
    if [ -n "$rootless" ]; then
        [ -n "$root_hash" ] || wrong "no --root was given for$rootless"
        give_root "$root_hash"
    fi
    [ -n "$agents_hash" ] || wrong 'no --agents was given'
    may_write
    pick_hasher
    pick_fetcher
    make_work
    install_agent
    [ -z "$dry" ] || {
        dry_end ${1+"$@"} # For posh, where no words at all are a mistake.
        return
    }
    if [ "$action" = reinstall ] && any_scope; then
        say 'The orgs that this machine is in are untouched.'
        restart_services
        return
    fi
    join_org ${1+"$@"}
    keep_running
}

# ---- what was asked for ----

add_gateway() {
    host=${1#https://} port=''
    case $1 in
        socks5://*:*/*) host=${1#socks5://*/} ;;
    esac
    case $host in
        \[*\]:*) port=${host##*\]:} host=${host#\[} host=${host%\]:*} ;;
        *:*) port=${host##*:} host=${host%:*} ;;
    esac
    bad="not the address of a gateway, https://HOST:PORT: $1"
    case $1 in
        https://* | socks5://*:*/*) ;;
        *) wrong "$bad" ;;
    esac
    case $port in
        '' | *[!0-9]*) wrong "$bad" ;;
    esac
    case $host in
        '' | *[!A-Za-z0-9.:_-]*) wrong "$bad" ;;
    esac
    rootless="$rootless $1"
}

# A root is that of the gateways before it that have none yet.
add_root() {
    [ -n "$1" ] || exit 2
    if [ -n "$rootless" ]; then
        give_root "$1"
    elif [ -z "$gateways" ]; then
        root_hash=$1
    else
        wrong "there is no --gateway before \`--root $1\` that has none"
    fi
}

give_root() {
    for each in $rootless; do
        gateways="$gateways $1=$each"
    done
    rootless=''
    case "$roots " in
        *" $1 "*) ;;
        *) roots="$roots $1" ;;
    esac
}

hash_given() {
    is_hash "$2" || wrong "the value of \`$1\` is not a SHA-256, 64 digits 0-9 a-f: $2"
    printf '%s' "$2"
}

is_hash() {
    case $1 in
        *[!0-9a-f]*) return 1 ;;
    esac
    [ "${#1}" -eq 64 ]
}

check_scope() {
    case $scope in
        *[!a-z0-9-]* | -*) wrong "the name of a scope has small letters, digits and -: $scope" ;;
    esac
}

# ---- words ----

say() { printf '%s\n' "$*"; }
note() { printf '%s\n' "$*" >&2; }

die() { # CODE WHY HINT
    printf 'error: %s\n  caused by: %s\nhint: %s\n' "${doing:-could not join}" "$2" "$3" >&2
    exit "$1"
}

wrong() {
    doing='could not begin'
    die 2 "$1" 'copy the whole line again; sh join.sh --help lists the options'
}

megabytes() { printf '%s.%s MB' "$(($1 / 1000000))" "$(($1 / 100000 % 10))"; }

# ---- what this machine has ----

has() { command -v "$1" >/dev/null 2>&1; }

may_write() {
    [ -z "$dry" ] || return 0
    if [ -d "$target" ]; then
        die 1 "$target is a folder" 'move it away, or name another folder for the agent: FREEHOLD_BIN=/some/folder'
    fi
    (umask 022 && mkdir -p "$bin") 2>/dev/null || :
    [ ! -w "$bin" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        die 1 "the folder $bin cannot be written, even by root" \
            'is its disk mounted read-only, or full? Or name another folder: FREEHOLD_BIN=/some/folder'
    fi
    die 1 "you are not root, and only root may write to $bin" \
        'run the line in a root shell (sudo -s, doas sh, su); or for yourself alone: export FREEHOLD_BIN=~/.local/bin'
}

# The first tool that hashes nothing to what everybody knows.
pick_hasher() {
    for each in sha256sum shasum digest openssl; do
        hasher=$each # yash forgets what a loop counted with.
        if has "$hasher" && hash_of /dev/null 2>/dev/null \
            && [ "$hash" = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ]; then
            return 0
        fi
    done
    die 1 'nothing here can compute a SHA-256: neither sha256sum, shasum, digest nor openssl works' \
        'install one of them (openssl has a package everywhere), and run the line again'
}

hash_of() { # FILE -> $hash
    case $hasher in
        sha256sum) hash=$(sha256sum <"$1") ;;
        shasum) hash=$(shasum -a 256 <"$1") ;;
        digest) hash=$(digest -a sha256 "$1") ;;
        openssl) hash=$(openssl dgst -sha256 <"$1") ;;
    esac || return 1
    hash=${hash##*= }
    hash=${hash%% *}
}

pick_fetcher() {
    if has curl; then
        fetcher=curl
    elif has wget; then
        fetcher=wget
        case $(wget --help 2>&1 </dev/null) in
            *--ca-certificate*) ;;
            *) die 1 'there is no curl here, and this wget cannot check whom it talks to' \
                'install curl (or GNU wget), and run the line again' ;;
        esac
    else
        die 1 'there is neither curl nor wget here' 'install curl, and run the line again'
    fi
}

make_work() {
    # Either follows no link and takes no folder that is there: nobody else can have made it.
    if ! work=$(mktemp -d "${TMPDIR:-/tmp}/freehold-join.XXXXXX" 2>/dev/null); then
        work=${TMPDIR:-/tmp}/freehold-join.$$
        mkdir -m 700 "$work" 2>/dev/null || die 1 "no folder of one's own can be made in ${TMPDIR:-/tmp}" \
            'make room there, or name another place: export TMPDIR=/some/folder'
    fi
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$work/none"
}

platform() { # -> $os $arch
    os=$(uname -s) arch=$(uname -m)
    case $os in
        Linux) os=linux ;;
        Darwin) os=macos ;;
        FreeBSD) os=freebsd ;;
        OpenBSD) os=openbsd ;;
        NetBSD) os=netbsd ;;
        SunOS) os=illumos ;;
        MINGW* | MSYS* | CYGWIN* | Windows_NT)
            die 1 'this is Windows' 'use the line for PowerShell that the operator has: freehold invite create'
            ;;
    esac
    # NetBSD says the board here, and the processor there.
    case $os-$arch in
        netbsd-evb*) arch=$(uname -p) ;;
    esac
    case $arch in
        x86_64 | amd64 | i86pc) arch=x86_64 ;;
        aarch64 | arm64) arch=aarch64 ;;
        armv6* | armv7* | armv8l | earmv6* | earmv7*) arch=armv7 ;; # The list's word for all 32-bit ARM.
        i386 | i486 | i586 | i686) arch=i686 ;;
        riscv64) arch=riscv64 ;;
    esac
}

# ---- fetching ----

size_of() { # FILE -> $size
    size=0
    [ ! -f "$1" ] || size=$(($(wc -c <"$1")))
}

# Adds to FILE what it lacks of URL. With `quiet`, words only if it fails. No answer is taken beyond LIMIT: the system
# itself ends whoever writes more (the unit is 512 bytes, or 1024 in some shells).
pull() { # URL FILE LIMIT quiet|shown; $anchor: the roots to believe
    limit=$(($3 / 512 + 1))
    # shellcheck disable=SC2016
    bounded='blocks=$1; shift; ulimit -c 0; (trap "" XFSZ) 2>/dev/null && trap "" XFSZ; ulimit -f "$blocks"; exec "$@"'
    url=$1 file=$2 how=$4 proxy=''
    case $url in
        socks5://*) proxy=${url#socks5://} && url=https://${proxy#*/} && proxy=${proxy%%/*} ;;
    esac
    if [ "$how" = shown ] && [ ! -t 2 ]; then how=quiet; fi
    # No configuration of this machine has a say, and no redirection is followed.
    if [ "$fetcher" = curl ]; then
        set -- curl -q -g --fail --proto =https --connect-timeout 30 --speed-limit 10 --speed-time 60 -C - -o "$file"
        [ -z "$proxy" ] || set -- "$@" --socks5-hostname "$proxy"
        if [ -n "$anchor" ]; then
            set -- "$@" --cacert "$anchor" --capath "$work/none"
        else
            set -- "$@" --insecure # For a root alone: its hash is compared before it is used.
        fi
        if [ "$how" = shown ]; then set -- "$@" --progress-bar; else set -- "$@" --silent --show-error; fi
    else
        set -- wget --no-config --tries=1 --timeout=60 --max-redirect=0 -c -O "$file"
        if [ -n "$anchor" ]; then
            set -- "$@" --ca-certificate="$anchor" --ca-directory="$work/none"
        else
            set -- "$@" --no-check-certificate
        fi
        if [ "$how" = shown ]; then set -- "$@" -q --show-progress; else set -- "$@" -nv; fi
    fi
    # Some builds of wget read the system's roots whatever they are told, but from where these say.
    set -- env SSL_CERT_FILE="${anchor:-$work/none/at-all}" SSL_CERT_DIR="$work/none" sh -c "$bounded" sh "$limit" "$@" "$url"
    code=0 busy='' said='' met=''
    if [ "$how" = shown ]; then
        "$@" </dev/null || code=$?
    else
        "$@" </dev/null 2>"$work/said" || code=$?
    fi
    [ "$code" != 0 ] || return 0
    if [ "$how" = quiet ]; then
        # A reason may be in a stranger's words: nothing in them moves the cursor.
        said=$(tr -cd '\n -~' <"$work/said")
        note "$said"
    fi
    case $said in
        *' 503'*) busy=yes ;;
    esac
    # Whoever has no certificate under the root is not the gateway; one that is only out of its time may be.
    case $fetcher/$code/$said in
        curl/51/* | curl/60/* | wget/5/*) met=impostor ;;
        curl/35/ | */*reset* | */*SYSCALL* | */*eof* | */*EOF*) ;; # Broken off.
        curl/35/* | wget/4/*'establish SSL'*) met=other ;;
    esac
    case $met/${anchor:+believed}/$said in
        impostor/*expir* | impostor/*'not yet'* | impostor/*'not activated'*) met=untimely ;;
        other/believed/*) met=impostor ;; # It spoke TLS well enough to give the root, or another did.
    esac
    return "$code"
}

# Fetches what has a hash from the first gateway that has it, and goes on where an earlier run stopped.
get() { # HASH FILE BYTES exactly|at-most WHAT quiet|shown
    impostors='' untimely='' deaf=''
    try_get "$@" || nobody_gave "$1" "$5"
}

try_get() { # As get. With $only, from gateways of that root alone, whoever answers there.
    spoiled=''
    for entry in $gateways; do
        gateway=${entry#*=} anchor=$work/${entry%%=*}.pem
        if [ -n "$only" ]; then
            [ "$only" = "${entry%%=*}" ] || continue
            anchor=''
        elif [ ! -f "$anchor" ]; then
            continue
        fi
        case $fetcher/$gateway in
            wget/socks5:*)
                note "$gateway: wget knows no such proxy; install curl"
                continue
                ;;
        esac
        tries=0
        while [ "$tries" -lt 4 ]; do
            tries=$((tries + 1))
            size_of "$2"
            had=$size
            code=0
            pull "$gateway/v1/file/$1" "$2" "$3" "$6" || code=$?
            size_of "$2"
            if [ "$size" -gt 0 ] && hash_of "$2" && [ "$hash" = "$1" ]; then return 0; fi
            enough_room "$2" "$3" "$size"
            if [ "$size" -ge "$3" ] || { [ "$4/$code" = at-most/0 ] && [ "$size" -gt 0 ]; }; then
                # All there and wrong.
                rm -f "$2"
                [ "$had" = 0 ] || continue
                note "$gateway: what it calls $5 is something else; refused"
                spoiled="$spoiled $gateway"
                break
            fi
            case $had/$fetcher/$code in
                0/*) ;;
                */curl/33 | */curl/36 | */wget/1)
                    # This gateway does not go on in the middle.
                    rm -f "$2"
                    continue
                    ;;
            esac
            if [ -n "$busy" ]; then
                note "$gateway is busy; once more in 3 seconds"
                sleep 3
                continue
            fi
            case $met in
                impostor)
                    note "$gateway: what answers there is not the org's gateway"
                    impostors="$impostors $gateway"
                    ;;
                untimely) untimely="$untimely $gateway" ;;
                other) deaf="$deaf $gateway" ;;
            esac
            [ "$size" -gt "$had" ] || break
            note "$gateway: $5 broke off after $size bytes"
        done
    done
    return 1
}

nobody_gave() { # HASH WHAT
    compare='compare the address with the one that the operator has (freehold gateway list), and tell them. No switch turns this off'
    if [ -n "$spoiled" ]; then
        die 3 "$2 is not what the line names (SHA-256 $1), at$spoiled" \
            "nothing was run. What answers there is not the org's gateway, or somebody is in the middle and changed it: $compare"
    fi
    if [ -n "$impostors" ]; then
        die 3 "what answers at$impostors is not the org's gateway: it has no certificate for that address under the root that the line names" \
            "nothing was run, and the code was not sent. Somebody may be in the middle: $compare"
    fi
    if [ -n "$untimely" ]; then
        die 1 "the certificate at$untimely is good at another time, and here it is $(date -u '+%Y-%m-%dT%H:%M:%SZ')" \
            'a clock is wrong: compare date -u, here and on the gateway, with a clock that you trust, set the wrong one, and run the same line again'
    fi
    if [ -n "$deaf" ]; then
        die 1 "what answers at$deaf does not speak TLS 1.3 with this machine" \
            "it is not the org's gateway, or the $fetcher here is too old for TLS 1.3. If it is not: $compare"
    fi
    die 1 "no gateway gave $2 (SHA-256 $1)" \
        'is a gateway running, can this machine reach it, is the invite still good? Then run the same line again: it goes on where it stopped'
}

enough_room() { # FILE BYTES HAVE
    has df || return 0
    folder=${1%/*}
    free=$(df -Pk "$folder" 2>/dev/null | {
        read -r _ || :
        read -r _ _ _ free _ || :
        printf '%s' "${free:-}"
    }) || return 0
    case $free in
        '' | *[!0-9]*) return 0 ;;
    esac
    if [ "$free" -lt $((($2 - $3) / 1024 + 1)) ] && [ "$3" -lt "$2" ]; then
        die 1 "the disk of $folder is full: $free KiB are free, $((($2 - $3) / 1024 + 1)) are needed" \
            'make room on that disk, and run the line again: it goes on where it stopped'
    fi
}

# ---- the agent ----

install_agent() {
    # On a machine that is in an org, its agent is the machine's own matter.
    if [ "$action" = install ] && [ -x "$target" ] && any_scope \
        && version=$("$target" --version 2>/dev/null </dev/null); then
        say "$version is installed already, at $target; it is kept (--reinstall puts it in again)."
        return 0
    fi
    platform
    get_roots
    get "$agents_hash" "$work/agents" 1048576 at-most 'the list of agents' quiet
    pick_agent
    # Elsewhere, whatever lies there gets the code only if it is the one that the list names.
    if [ "$action" = install ] && [ -x "$target" ] && hash_of "$target" && [ "$hash" = "$agent" ]; then
        say "freehold-node $version is installed already, at $target; it is kept (--reinstall puts it in again)."
        return 0
    fi
    if [ -n "$dry" ]; then
        say "would fetch freehold-node $version for $os $arch ($(megabytes "$bytes"), SHA-256 $agent) and put it at $target"
        return 0
    fi
    claim_part
    size_of "$part"
    if [ "$size" -ge "$bytes" ]; then
        rm -f "$part"
        size=0
    fi
    enough_room "$part" "$bytes" "$size"
    if [ "$size" -gt 0 ]; then
        say "Going on with freehold-node $version for $os $arch after $(megabytes "$size") of $(megabytes "$bytes")."
    else
        say "Fetching freehold-node $version for $os $arch, $(megabytes "$bytes")."
    fi
    get "$agent" "$part" "$bytes" exactly 'the agent' shown
    # Its hash is right: only now may it run.
    chmod 755 "$part"
    if ! said=$("$part" --version 2>&1 </dev/null); then
        rm -f "$part"
        die 1 "the agent for $os $arch does not run here: $said" \
            'it may be built for another libc, or the disk may be mounted noexec: tell the operator (freehold release add), or set FREEHOLD_BIN'
    fi
    sync "$part" 2>/dev/null || sync 2>/dev/null || :
    mv -f "$part" "$target"
    sync "$bin" 2>/dev/null || :
    say "$said is at $target."
}

# Each root from the gateways that are believed by it; one of them must be there.
get_roots() {
    have='' wrong_at='' impostors='' untimely='' deaf=''
    for each in $roots; do
        only=$each # yash forgets what a loop counted with.
        if try_get "$only" "$work/root" 65536 at-most "the org's root" quiet; then
            mv "$work/root" "$work/$only.pem"
            have=yes
        else
            wrong_at="$wrong_at$spoiled"
            rm -f "$work/root"
        fi
    done
    spoiled=$wrong_at
    [ -n "$have" ] || nobody_gave "$only" "the org's root"
    only=''
}

pick_agent() { # -> $agent $bytes $version
    agent='' offered=''
    {
        read -r magic format _ || :
        if [ "${magic:-} ${format:-}" != 'freehold-agents 1' ]; then
            die 3 'the list of agents is of a kind that this script does not know' 'ask the operator for a fresh line'
        fi
        while read -r one two three four five _; do
            offered="$offered${offered:+, }$one $two"
            if [ "$one $two" = "$os $arch" ]; then agent=$three bytes=$four version=${five:-of no version}; fi
        done
    } <"$work/agents"
    if [ -z "$agent" ]; then
        die 1 "there is no agent for this machine, $os $arch; the invite has: ${offered:-none}" \
            "ask the operator to build freehold-node for $os $arch, to run \`freehold release add FILE\`, and for a fresh line"
    fi
    case $bytes in
        '' | 0* | *[!0-9]* | ???????????*) die 3 'the list of agents is damaged' 'ask the operator for a fresh line' ;;
    esac
    is_hash "$agent" || die 3 'the list of agents is damaged' 'ask the operator for a fresh line'
}

# Takes over what a run that is no more has fetched of the same agent; two runs at once are not in each other's way.
claim_part() { # -> $part
    part=$bin/.freehold-node.$agent.$$
    set +f
    for old in "$bin"/.freehold-node.*.*; do
        runs=${old##*.}
        case $runs in
            '' | *[!0-9]*) continue ;;
        esac
        if [ ! -f "$old" ] || [ -L "$old" ] || kill -0 "$runs" 2>/dev/null; then continue; fi
        case $old in
            "$bin/.freehold-node.$agent."*)
                if [ ! -f "$part" ]; then mv "$old" "$part" 2>/dev/null || :; else rm -f "$old"; fi
                ;;
            *) rm -f "$old" ;;
        esac
    done
    set -f
}

# ---- joining, and staying ----

join_org() {
    doing='could not join'
    if [ -n "$scope" ]; then set -- --as "$scope" ${1+"$@"}; fi
    code=0
    # The code goes from stdin to freehold-node; nothing else here reads stdin.
    (umask "$mask" && exec "$target" join --tell "$work/scope" ${1+"$@"}) || code=$?
    if [ "$code" != 0 ]; then
        note "freehold-node is at $target; this machine did not join. The same line may be run again."
        exit "$code"
    fi
    read -r scope <"$work/scope"
}

keep_running() {
    if [ ! -d /run/systemd/system ] || [ "$(id -u)" != 0 ]; then
        say "No service was installed: that needs systemd, and root. Keep the agent running yourself:"
        say "  $target run --as $scope"
        return 0
    fi
    doing='this machine is a member now, but the service could not be installed'
    (umask "$mask" && exec "$target" service install --as "$scope") </dev/null \
        || die 1 'see above' "try it again: $target service install --as $scope; or run the agent yourself: $target run --as $scope"
    say "How it stands: $target status --as $scope"
}

restart_services() {
    if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then
        systemctl try-restart 'freehold-node@*.service' </dev/null \
            || die 1 'the agent is replaced, but its service could not be restarted' 'systemctl status freehold-node@SCOPE'
    else
        say "An agent that runs now is still the old one: stop it and start it again, $target run"
    fi
}

dry_end() {
    if [ "$action" = reinstall ] && any_scope; then
        say 'would not touch the orgs that this machine is in; would restart their services'
        return 0
    fi
    say "would join with the code from stdin: freehold-node join${scope:+ --as $scope}${*:+ $*}"
    if [ -d /run/systemd/system ]; then
        say 'would install a service: freehold-node service install'
    else
        say 'would install no service: systemd does not run here'
    fi
    say 'Nothing was changed.'
}

# ---- leaving ----

node_root() {
    if [ -n "${FREEHOLD_ROOT:-}" ]; then
        printf '%s' "$FREEHOLD_ROOT"
    elif [ "$(id -u)" = 0 ]; then
        printf /var/lib/freehold
    else
        printf '%s/freehold' "${XDG_STATE_HOME:-${HOME:-.}/.local/state}"
    fi
}

scopes() { # -> $found, the names of this machine's scopes
    found=''
    where=$(node_root)
    set +f
    for each in "$where"/*/node.key; do
        if [ -f "$each" ]; then
            each=${each%/node.key}
            found="$found${found:+ }${each##*/}"
        fi
    done
    set -f
}

any_scope() {
    scopes
    [ -n "$found" ]
}

uninstall() {
    scopes
    if [ -z "$scope" ]; then
        case $found in
            *' '*) die 2 "this machine is in several orgs: $found" 'say which one to leave: --as SCOPE' ;;
        esac
        scope=$found
    fi
    case " $found " in
        *" ${scope:-/} "*) joined=yes ;;
        *) joined='' ;;
    esac
    others=''
    for each in $found; do
        [ "$each" = "$scope" ] || others="$others${others:+ }$each"
    done
    if [ -n "$dry" ]; then
        [ -z "$joined" ] || say "would leave: freehold-node leave --as $scope"
        [ -z "$scope" ] || say "would remove the service of $scope, if there is one"
        if [ -n "$others" ]; then say "would keep $target: $others"; else say "would remove $target"; fi
        say 'Nothing was changed.'
        return 0
    fi
    if [ -e "$target" ] && [ ! -w "$bin" ]; then
        die 1 "$bin cannot be written" 'run this in a root shell'
    fi
    if [ -n "$joined" ]; then
        [ -x "$target" ] || die 1 "this machine is in $scope, and $target is gone" 'run the line with --reinstall first'
        code=0
        "$target" leave --yes --as "$scope" </dev/null || code=$?
        if [ "$code" != 0 ]; then
            note "It is still a member, and nothing was removed. To go without telling the gateway: $target leave --local --as $scope; then run this again."
            exit "$code"
        fi
    fi
    if [ -n "$scope" ] && [ -x "$target" ] && [ -d /run/systemd/system ]; then
        "$target" service remove --as "$scope" </dev/null \
            || die 1 'the service could not be removed' "systemctl disable --now freehold-node@$scope"
    fi
    if [ -n "$others" ]; then
        say "$target stays: this machine is still in $others."
        return 0
    fi
    set +f
    rm -f "$target" "$bin"/.freehold-node.*.* "$where"/.*.joining
    set -f
    rmdir "$where" 2>/dev/null || :
    say 'Freehold is removed from this machine.'
}

main "$@"
