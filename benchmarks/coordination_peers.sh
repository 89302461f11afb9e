#!/usr/bin/env bash
# The heimdall-* commands as one would write them with bash and jq: the peers of benchmarks/coordination.py.
# They take the same words, find the same files and do the same job: arguments are read, ids, messages and claims checked,
# changes made under a lock and renamed into place, and each action is one line of the trail.
set -eu

fail() { # EXIT-CODE, then what is wrong
  echo "error: $2" >&2
  exit "$1"
}
command -v jq > /dev/null || fail 2 "jq is needed"
if [ -z "${HEIMDALL_PLANNING_DIR:-}" ]; then
  common=$(git rev-parse --path-format=absolute --git-common-dir)
  HEIMDALL_PLANNING_DIR=${common%/.git}/.planning
fi
P=$HEIMDALL_PLANNING_DIR

stamp() { date -u +%Y-%m-%dT%H:%M:%SZ; }
log() { # ACTOR ACTION DETAIL
  local detail=${3//$'\t'/\\t}
  printf '%s\t%s\t%s\t%s\n' "$(stamp)" "$1" "$2" "${detail//$'\n'/\\n}" >> "$P/protocol.log"
}
change() { # FILE, then what jq is to do to it
  local file=$1
  shift
  (
    flock 9
    jq "$@" "$file" > "$file.$$" && mv "$file.$$" "$file"
  ) 9> "$file.lock"
}
check_id() { case $1 in '' | .* | *[!A-Za-z0-9._-]*) fail 2 "not an id: $1" ;; esac; }
slug() { printf %s "$1" | tr A-Z a-z | tr -cs a-z0-9 - | sed -e 's/^-//' -e 's/-$//' | cut -c1-24; }
options() { # WORD...: sets the variable of each --option
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail 2 "$1 needs a value"
    case $1 in
      --task) task=$2 ;; --spec) spec=$2 ;; --symbols) symbols=$2 ;; --capsules) capsules=$2 ;;
      --role) role=$2 ;; --kind) kind=$2 ;; --tokens) tokens=$2 ;;
      --report) report=$2 ;; --from) from=$2 ;; --msg-id) msg_id=$2 ;;
      *) fail 2 "unknown option $1" ;;
    esac
    shift 2
  done
}

resolve() {
  local value
  if [ "$1" = set ]; then
    change "$P/protocol/symbols.json" --arg k "$2" --arg v "$3" '.symbols[$k] = $v'
    log resolve set "$2=$3"
    echo "$2 = $3"
  else
    value=$(jq -er --arg k "$1" '.symbols[$k]' "$P/protocol/symbols.json") || fail 1 "no symbol $1"
    log resolve lookup "$1"
    echo "$value"
  fi
}
blackboard() { # get KEY
  local value
  value=$(jq -er --arg k "$2" '.facts[$k]' "$P/blackboard.json") || fail 1 "no fact $2"
  log blackboard get "$2"
  echo "$value"
}
validate() {
  local message report
  message=$(cat)
  report=$(printf %s "$message" | jq -c '
    def text: type == "string" and length > 0;
    def texts: type == "array" and all(type == "string");
    def need($m; $name; ok): if $m | has($name) | not then "missing required field: \($name)"
      elif $m[$name] | ok then empty else "\($name) is not right: \($m[$name])" end;
    def may($m; $name; ok): if ($m | has($name)) and ($m[$name] | ok | not)
      then "\($name) is not right: \($m[$name])" else empty end;
    def among($all): . as $one | $all | index($one) != null;
    . as $m | [
      need($m; "type"; among(["task_claim", "task_result", "gate_report", "escalation", "question", "checkpoint"])),
      need($m; "from"; text), need($m; "msg_id"; text),
      may($m; "reply_to"; type == "string"), may($m; "ts"; type == "string"),
      if $m.type == "task_claim" then need($m; "task"; type == "string"),
        may($m; "symbols"; texts), may($m; "capsules"; texts)
      elif $m.type == "task_result" then need($m; "task"; type == "string"),
        need($m; "status"; among(["pass", "fail", "partial"])),
        may($m; "criteria"; type == "array" and all(type == "number" and . == floor)),
        may($m; "commit"; type == "string"), may($m; "capsule"; type == "string")
      elif $m.type == "gate_report" then need($m; "gate_id"; type == "string"),
        need($m; "status"; among(["pass", "fail"])), may($m; "report_ref"; type == "string"),
        may($m; "wave"; . == null or type == "string")
      elif $m.type == "escalation" then need($m; "reason"; text),
        need($m; "severity"; among(["blocker", "warning", "info"])), may($m; "refs"; texts)
      elif $m.type == "question" then need($m; "question"; text), may($m; "refs"; texts)
      elif $m.type == "checkpoint" then need($m; "wave"; type == "string"),
        need($m; "state"; among(["started", "in_progress", "complete", "blocked"])), may($m; "capsules"; texts)
      else empty end
    ] | {valid: (length == 0), errors: .}' 2> /dev/null) || report='{"valid":false,"errors":["unparseable JSON"]}'
  echo "$report"
  case $report in
    '{"valid":true'*) log validate accept "$(printf %s "$message" | jq -r .msg_id)" ;;
    *) log validate reject "$report" && exit 1 ;;
  esac
}

visit() { # ID: adds to order what it builds on, then itself
  local file=$P/protocol/capsules/$1.md need
  check_id "$1"
  case " $seen " in *" $1 "*) return ;; esac
  seen="$seen $1"
  [ -f "$file" ] || fail 1 "no capsule $1"
  for need in $(sed -n '/^depends:/{s/^depends: *//p;q;}' "$file" | tr , ' '); do visit "$need"; done
  order="$order $1"
}
closure() { # ID...
  local name
  seen='' order=''
  for name in "$@"; do visit "$name"; done
}
hydrated() {
  local name gap=
  for name in $order; do
    printf %s "$gap"
    cat "$P/protocol/capsules/$name.md"
    gap=$'\n'
  done
}
capsule() { # hydrate ID...
  shift
  closure "$@"
  hydrated
  log capsule hydrate "$*"
}
brief() { # build OPTION...
  local task='' spec='' symbols='' capsules='' name
  shift
  options "$@"
  [ -n "$task" ] && [ -n "$spec" ] || fail 2 "--task and --spec are needed"
  closure ${capsules//,/ }
  printf '=== DELTA BRIEF - task %s ===\n# ask for what is not here\n\nTASK SPEC:\n  %s\n' "$task" "$spec"
  printf '\nSYMBOLS (referenced only):\n'
  for name in ${symbols//,/ }; do
    echo "  $name = $(jq -r --arg s "$name" '.symbols[$s] // "<UNRESOLVED>"' "$P/protocol/symbols.json")"
  done
  printf '\nCONTEXT CAPSULES (oldest first):\n'
  hydrated | sed 's/^/  /'
  log brief build "task=$task symbols=$symbols capsules=$capsules"
}
ledger() {
  local role='' kind='' tokens='' base measured what=$1
  shift
  options "$@"
  if [ "$what" = log ]; then
    case $tokens in '' | *[!0-9]*) fail 2 "not a number of tokens: $tokens" ;; esac
    jq -cn --arg ts "$(stamp)" --arg r "$role" --arg k "$kind" --argjson n "$tokens" \
      '{ts: $ts, role: $r, kind: $k, tokens: $n}' >> "$P/protocol/ledger.jsonl"
    log ledger log "$role/$kind=$tokens"
    echo "logged $role/$kind=$tokens"
  else
    base=$(jq -r --arg r "$role" '.baselines[$r] // 0' "$P/protocol/baselines.json")
    measured=$(jq -s --arg r "$role" 'map(select(.role == $r).tokens) | add // 0' "$P/protocol/ledger.jsonl")
    echo "  $role: $base -> $measured tokens (v1 baseline -> measured; $((100 * (measured - base) / base))%)"
    log ledger delta "$role"
  fi
}
gate() { # to-message OPTION...
  local report='' from='' msg_id=''
  shift
  options "$@"
  [ -f "$report" ] || fail 1 "no report $report"
  jq -ce --arg ts "$(stamp)" --arg ref "$PWD/$report" --arg from "$from" --arg id "$msg_id" '
    select((.gate_id | type) == "string" and (.status == "pass" or .status == "fail")) |
    {type: "gate_report", from: $from, msg_id: $id, ts: $ts, gate_id, status, report_ref: $ref}' "$report" ||
    fail 1 "$report is not a report"
  log gate to-message "ref=$PWD/$report"
}

haid() {
  local human machine top hash
  if [ -n "${HEIMDALL_HAID:-}" ]; then
    echo "$HEIMDALL_HAID"
    return
  fi
  human=$(git config user.email || echo "${USER:-${LOGNAME:-unknown}}")
  human=$(slug "${human%%@*}")
  machine=$(slug "$(hostname -s)")
  top=$(git rev-parse --show-toplevel)
  hash=$(printf '%s\037%s\037%s' "$human" "$machine" "$top" | sha256sum | cut -c1-4)
  echo "haid:$human.$machine-$hash"
}
current() {
  local own
  own=$(haid)
  log haid current "$own"
  echo "$own"
}
active='select($now < ((.heartbeat | fromdateiso8601) + .ttl_minutes * 60))'
claims() {
  local file now
  now=$(date +%s)
  for file in "$P"/ledger/claims/*.json; do
    jq -r --argjson now "$now" "$active"' | "  \(.haid)  task \(.task_ref)\n    \(.claimed_surfaces[])"' "$file"
  done
  log claim list "$now"
}
claim() { # list, or: claim SURFACE --task T
  local own file now surface task='' fence
  if [ "$1" = list ]; then
    claims
    return
  fi
  surface=$2
  shift 2
  options "$@"
  own=$(haid)
  (
    flock 9
    now=$(date +%s)
    for file in "$P"/ledger/claims/*.json; do
      # By the directories before the first star, and so not exactly.
      if jq -e --argjson now "$now" --arg own "$own" --arg mine "${surface%%\**}" "$active"' | select(.haid != $own) |
          .claimed_surfaces[] | sub("[*].*"; "") | select(startswith($mine) or (. as $held | $mine | startswith($held)))
          ' "$file" > /dev/null; then fail 3 "COLLISION: $file"; fi
    done
    fence=$(($(cat "$P/ledger/fence" 2> /dev/null || echo 0) + 1))
    echo "$fence" > "$P/ledger/fence"
    jq -n --arg own "$own" --arg ts "$(stamp)" --arg surface "$surface" --arg task "$task" --argjson fence "$fence" '
      {haid: $own, claimed_surfaces: [$surface], task_ref: $task, claimed_at: $ts, ttl_minutes: 90, heartbeat: $ts,
      fence: $fence}' > "$P/ledger/claims/new.$$"
    mv "$P/ledger/claims/new.$$" "$P/ledger/claims/${own//[:\/]/_}.json"
  ) 9> "$P/ledger/peer.lock"
  log claim claim "$own task=$task $surface"
  echo "claimed $surface for $own (task $task)"
}

protocol() { # log [N]
  tail -n "${2:-20}" "$P/protocol.log"
}

command=$1
shift
case $command in
  haid) current ;;
  *) "$command" "$@" ;;
esac
