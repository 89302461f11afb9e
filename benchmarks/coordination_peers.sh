#!/usr/bin/env bash
# The jobs of the heimdall-* commands as one would write them with bash and jq: the peers of benchmarks/coordination.py.
set -eu
P=$HEIMDALL_PLANNING_DIR

stamp() { date -u +%Y-%m-%dT%H:%M:%SZ; }
log() { printf '%s\t%s\t%s\t%s\n' "$(stamp)" "$1" "$2" "$3" >> "$P/protocol.log"; }
change() { # FILE, then what jq is to do to it
  local file=$1
  shift
  (
    flock 9
    jq "$@" "$file" > "$file.$$" && mv "$file.$$" "$file"
  ) 9> "$file.lock"
}
haid() {
  local human machine hash
  human=$(git config user.email | cut -d@ -f1 | tr A-Z a-z)
  machine=$(hostname -s | tr A-Z a-z)
  hash=$(printf '%s\037%s\037%s' "$human" "$machine" "$(git rev-parse --show-toplevel)" | sha256sum | cut -c1-4)
  echo "haid:$human.$machine-$hash"
}

resolve_get() {
  local value
  value=$(jq -er '.symbols["F12"]' "$P/protocol/symbols.json") || exit 1
  log resolve lookup F12
  echo "$value"
}
resolve_set() {
  change "$P/protocol/symbols.json" --arg v src/x.ts '.symbols["F12"] = $v'
  log resolve set F12=src/x.ts
  echo "F12 = src/x.ts"
}
blackboard_get() {
  local value
  value=$(jq -er '.facts["port"]' "$P/blackboard.json") || exit 1
  log blackboard get port
  echo "$value"
}
validate() {
  local message
  message=$(cat)
  printf %s "$message" | jq -c '. as $m | [
    (["type", "from", "msg_id"][] | select($m[.] == null) | "missing required field: \(.)"),
    (if (["task_claim", "task_result", "gate_report", "escalation", "question", "checkpoint"] | index($m.type)) == null
     then "type not in enum: \($m.type)" else empty end),
    (if $m.type == "task_result"
     then (["task", "status"][] | select($m[.] == null) | "task_result: missing required field: \(.)")
     else empty end)
  ] | {valid: (length == 0), errors: .}'
  log validate accept "$(printf %s "$message" | jq -r .msg_id)"
}
capsule_hydrate() {
  local queue=w2 seen= next name
  while [ -n "$queue" ]; do
    next=
    for name in $queue; do
      case " $seen " in *" $name "*) continue ;; esac
      seen="$name $seen"
      next="$next $(sed -n 's/^depends: //p' "$P/protocol/capsules/$name.md" | tr , ' ')"
    done
    queue=$(echo $next)
  done
  for name in $seen; do
    cat "$P/protocol/capsules/$name.md"
    echo
  done
  log capsule hydrate w2
}
brief_build() {
  local name
  printf '=== DELTA BRIEF - task 1 ===\nTASK SPEC:\n  do it\nSYMBOLS:\n'
  for name in F12 C3; do
    echo "  $name = $(jq -r --arg s "$name" '.symbols[$s] // "<UNRESOLVED>"' "$P/protocol/symbols.json")"
  done
  echo "CONTEXT CAPSULES:"
  sed 's/^/  /' "$P/protocol/capsules/w1.md"
  log brief build "task=1 symbols=F12,C3 capsules=w1"
}
ledger_log() {
  jq -cn --arg ts "$(stamp)" '{ts: $ts, role: "r", kind: "k", tokens: 3}' >> "$P/protocol/ledger.jsonl"
  log ledger log r/k=3
  echo "logged r/k=3"
}
ledger_delta() {
  local base measured
  base=$(jq -r '.baselines["r"] // 0' "$P/protocol/baselines.json")
  measured=$(jq -s 'map(select(.role == "r").tokens) | add // 0' "$P/protocol/ledger.jsonl")
  echo "  r: $base -> $measured tokens (v1 baseline -> measured; $((100 * (measured - base) / base))%)"
  log ledger delta r
}
gate_to_message() {
  jq -ce --arg ts "$(stamp)" --arg ref "$PWD/report.json" 'select(.status == "pass" or .status == "fail") |
    {type: "gate_report", from: "s", msg_id: "g1", ts: $ts, gate_id, status, report_ref: $ref}' report.json
  log gate to-message "g/pass ref=$PWD/report.json"
}
active='select($now < ((.heartbeat | fromdateiso8601) + .ttl_minutes * 60))'
claim_list() {
  local file now
  now=$(date +%s)
  for file in "$P"/ledger/claims/*.json; do
    jq -r --argjson now "$now" "$active"' | "  \(.haid)  task \(.task_ref)\n    \(.claimed_surfaces[])"' "$file"
  done
  log claim list 1
}
claim_claim() {
  local own file now
  own=$(haid)
  (
    flock 9
    now=$(date +%s)
    for file in "$P"/ledger/claims/*.json; do
      if jq -e --argjson now "$now" --arg own "$own" "$active"' | select(.haid != $own)
          | .claimed_surfaces[] | select(startswith("peer/"))' "$file" > /dev/null; then exit 3; fi
    done
    jq -n --arg own "$own" --arg ts "$(stamp)" '{haid: $own, claimed_surfaces: ["peer/**"], task_ref: "T",
      claimed_at: $ts, ttl_minutes: 90, heartbeat: $ts}' > "$P/ledger/claims/new.$$"
    mv "$P/ledger/claims/new.$$" "$P/ledger/claims/peer.json"
  ) 9> "$P/ledger/peer.lock"
  log claim claim "$own task=T peer/**"
  echo claimed
}
haid_current() {
  haid
  log haid current ""
}

"$1"
