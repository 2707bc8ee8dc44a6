# SPDX-License-Identifier: MIT
# bash completion for hob and hobd. Installed as bash-completion/completions/hob and …/hobd; or: . hob.bash
# The options are those of hob --help and hobd COMMAND --help (a test compares them). Model names come from the models
# folders. Session names come from the running daemon; without one there are none, and no daemon is started.

# Join the words that readline splits at = and :, into the caller's words and cur. Set prefix to the part of cur that
# readline does not replace.
_hob_words() {
    local i raw glue=''
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        raw=${COMP_WORDS[i]}
        if ((i)) && [[ $raw =~ ^[=:]+$ || $glue ]]; then
            words[${#words[@]} - 1]+=$raw
        else
            words+=("$raw")
        fi
        glue=
        [[ ! $raw =~ ^[=:]+$ ]] || glue=1
    done
    cur=${words[${#words[@]} - 1]}
    raw=${COMP_WORDS[COMP_CWORD]}
    if [[ $raw =~ ^[=:]+$ ]]; then prefix=$cur; else prefix=${cur%"$raw"}; fi
}

# Offer the arguments that begin with cur; -q: quoted for the shell.
_hob_offer() {
    local quote='' have=$cur text
    [[ $1 != -q ]] || { quote=1; shift; }
    case $have in
    [\"\']*) have=${have:1} quote= ;;
    *) have=${have//\\/} ;;
    esac
    for text; do
        [[ $text == "$have"* ]] || continue
        [[ ! $quote ]] || printf -v text %q "$text"
        text=$before$text
        COMPREPLY+=("${text#"$prefix"}")
    done
}

_hob_files() {
    local found
    mapfile -t found < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
    COMPREPLY+=("${found[@]}")
}

_hob_gguf() {
    local found
    mapfile -t found < <(compgen -d -- "$cur"; compgen -f -X '!*.gguf' -- "$cur")
    compopt -o filenames 2>/dev/null
    COMPREPLY+=("${found[@]}")
}

# Names in the models folders; also .gguf files if cur is not empty.
_hob_models() {
    local dir file names=()
    for dir in "${XDG_DATA_HOME:-$HOME/.local/share}/hob/models" /var/lib/hob/models /usr/share/hob/models; do
        for file in "$dir"/*.gguf; do
            [[ ! -e $file ]] || { file=${file##*/}; names+=("${file%.gguf}"); }
        done
    done
    # With files among the completions, readline quotes all of them.
    [[ ! $cur ]] || _hob_gguf
    if ((${#COMPREPLY[@]})); then _hob_offer "${names[@]}"; else _hob_offer -q "${names[@]}"; fi
}

# Names in the user's own models folder, which can be removed.
_hob_own_models() {
    local file names=()
    for file in "${XDG_DATA_HOME:-$HOME/.local/share}"/hob/models/*.gguf; do
        [[ ! -e $file && ! -L $file ]] || { file=${file##*/}; names+=("${file%.gguf}"); }
    done
    _hob_offer -q "${names[@]}"
}

# Session names from the daemon's JSON. Its strings escape only \ and ", since a name holds no control character.
_hob_sessions() {
    local names i model=()
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        -m | --model) model=(-m "${words[i + 1]}") ;;
        --model=*) model=(-m "${words[i]#*=}") ;;
        --) break ;;
        esac
    done
    mapfile -t names < <(timeout 1 "$hob" sessions --json "${model[@]}" 2>/dev/null </dev/null |
        grep -oE '"name": ?"([^"\\]|\\.)*"' | sed -E 's/^"name": ?"//; s/"$//; s/\\(.)/\1/g')
    _hob_offer -q "${names[@]}"
}

# Numbers of the last exchanges of the log.
_hob_exchanges() {
    local ids
    mapfile -t ids < <(timeout 1 "$hob" log list 2>/dev/null </dev/null | grep -oE '^@[0-9]+')
    _hob_offer "${ids[@]}"
}

# Names of templates, as the program lists them.
_hob_templates() {
    local names
    mapfile -t names < <(timeout 1 "$hob" templates 2>/dev/null </dev/null | sed '1d; s/  .*//')
    _hob_offer -q "${names[@]}"
}

# Set option to the option whose value is being completed, or to nothing. $1: the options that take a value.
_hob_option() {
    local last=${words[${#words[@]} - 2]}
    option=
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*} before=$option=
        cur=${cur#*=}
    elif ((${#words[@]} > 2)) && [[ " $1 " == *" $last "* ]]; then
        option=$last
    fi
}

_hob() {
    local words cur prefix before='' option hob=$1 i command='' verb='' ended='' count=0
    local valued="-m --model -s --system -f --file -a --image --audio -t --template -p --param -S --session --fork --priority --speculate --adapter --adapter-of --context --n -n --max-tokens --temp --top-p --top-k
        --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias
        --mirostat --mirostat-eta --seed --stop --timeout --sha256 --prefix-file --suffix-file --at --max-lines --out --jobs --dims --pooling
        --schema --grammar --regex --choice --on-limit --think --think-budget --tools --tool --tool-choice --tool-rounds
        --tool-timeout --number --prefix --question-prefix --max-size --log-size --log-age --limit"
    valued=${valued//[[:space:]]/ }
    # shellcheck disable=SC2088 # the tilde is one that was typed
    [[ $hob != "~/"* ]] || hob=$HOME/${hob:2}
    COMPREPLY=()
    _hob_words
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --) ended=1 && break ;;
        -*) [[ " $valued " != *" ${words[i]} "* ]] || ((i++)) ;;
        *)
            if [[ ! $command ]]; then command=${words[i]}
            elif [[ ! $verb ]]; then verb=${words[i]}
            else ((count++))
            fi
            ;;
        esac
    done
    [[ ! $ended ]] || return 0
    _hob_option "$valued"
    case $option in
    -m | --model | --adapter-of) _hob_models; return ;;
    -S | --session) _hob_sessions; return ;;
    -t | --template) _hob_templates; return ;;
    --priority) _hob_offer infill interactive batch; return ;;
    --speculate) _hob_offer auto off lookup draft; return ;;
    --context) _hob_offer refuse shift rotate; return ;;
    --on-limit) _hob_offer close cut; return ;;
    --pooling) _hob_offer mean cls last; return ;;
    --think) _hob_offer hide show stderr on off; return ;;
    --tool-choice) _hob_offer auto none required; return ;;
    -f | --file | -a | --image | --audio | --prefix-file | --suffix-file | --schema | --grammar | --tools | --tool | --out) _hob_files; return ;;
    ?*) return ;;
    esac
    case $cur:${words[${#words[@]} - 2]} in
    @*:-c | @*:--continue) _hob_exchanges; return ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        status | sessions | stop | templates)
            _hob_offer --model --quiet --verbose --help --version
            [[ $command == stop || $command == templates ]] || _hob_offer --json
            [[ $command != status ]] || _hob_offer --watch
            ;;
        models)
            _hob_offer --quiet --help
            case $verb in
            '' | list) _hob_offer --json ;;
            add) _hob_offer --copy --link --force --system --adapter-of ;;
            pull) _hob_offer --sha256 --insecure-http --force --system ;;
            rm) _hob_offer --system --adapter-of ;;
            esac
            ;;
        index) _hob_offer --model --dims --prefix --question-prefix --max-size --no-ignore --list --rm --jsonl --quiet --help ;;
        find) _hob_offer --answer --number --model --jsonl --quiet --verbose --help ;;
        log)
            _hob_offer --quiet --help
            case $verb in
            '' | list | search) _hob_offer --limit --json ;;
            show) _hob_offer --json ;;
            rm) _hob_offer --all ;;
            export) _hob_offer --jsonl ;;
            esac
            ;;
        media) _hob_offer --json --output --help ;;
        do)
            _hob_offer --model --file --image --audio --no-stdin --max-tokens --timeout --priority --speculate --temp --top-p --top-k \
                --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias \
                --mirostat --mirostat-eta --seed --think --think-budget \
                --adapter --log --no-log --log-size --log-age --quiet --verbose --print --no-context --help --version
            ;;
        chat)
            _hob_offer --model --system --file --image --audio --session --priority --speculate --adapter --context --wait --max-tokens --ignore-eos --temp --top-p --top-k \
                --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias \
                --mirostat --mirostat-eta --seed --stop --timeout --schema --grammar --regex --choice --on-limit \
                --schema-lenient --any-order --compact --think --think-budget --tool --tool-choice --yes --tool-rounds --tool-timeout \
                --log --no-log --log-size --log-age --render --quiet --verbose --help --version
            ;;
        embed) _hob_offer --model --dims --pooling --jsonl --npy --priority --timeout --quiet --verbose --help --version ;;
        rank) _hob_offer --model --jsonl --priority --timeout --quiet --verbose --help --version ;;
        infill)
            _hob_offer --model --prefix-file --suffix-file --at --max-lines --max-tokens --ignore-eos --temp --top-p --top-k \
                --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias \
                --mirostat --mirostat-eta --seed --stop --priority --speculate --adapter --timeout --no-stream --jsonl --logprobs --quiet --verbose \
                --log --no-log --log-size --log-age --help --version
            ;;
        batch | map)
            _hob_offer --model --system --raw --special --context --max-tokens --stop --ignore-eos --timeout --priority --speculate --temp --top-p --top-k \
                --min-p --seed --repeat-penalty --frequency-penalty --presence-penalty --repeat-last-n --typical-p \
                --adapter --mirostat --mirostat-eta --logit-bias --schema --grammar --regex --choice --on-limit \
                --schema-lenient --any-order --compact --think --think-budget --quiet --verbose --extract --jobs --resume --help --version
            [[ $command == map ]] || _hob_offer --file --image --audio --tools --tool-choice --logprobs --out --ordered
            [[ $command == batch ]] || _hob_offer --write --null
            ;;
        *)
            _hob_offer --model --system --file --image --audio --template --param --raw --special --no-stdin --warm --session --continue --fork --wait \
                --context --detach --log --no-log --log-size --log-age --max-tokens --stop --ignore-eos --n --timeout --priority --speculate --adapter --temp --top-p --top-k \
                --min-p --seed --repeat-penalty --frequency-penalty --presence-penalty --repeat-last-n --typical-p \
                --mirostat --mirostat-eta --logit-bias --schema --grammar --regex --choice --on-limit \
                --schema-lenient --any-order --compact --think --think-budget --tools --tool --tool-choice --yes --tool-rounds \
                --tool-timeout --quiet --verbose --extract --render --no-stream --jsonl --logprobs \
                --json --watch --help --version
            ;;
        esac
        return
    fi
    case $command:$verb in
    :) _hob_offer status sessions models log media chat infill batch map embed rank index find templates do stop ;;
    templates:) _hob_offer list show edit ;;
    templates:show | templates:edit) ((count)) || _hob_templates ;;
    log:) _hob_offer list search show rm export on off ;;
    log:show | log:rm | log:export) _hob_exchanges ;;
    batch:* | map:*) _hob_files ;;
    index:) _hob_files ;;
    media:* | embed:* | rank:?*) _hob_files ;;
    sessions:) _hob_offer list show search fork rename rm ;;
    sessions:rm) _hob_sessions ;;
    models:) _hob_offer list add pull rm ;;
    models:add) ((count)) || _hob_gguf ;;
    models:rm) _hob_own_models ;;
    sessions:show | sessions:fork | sessions:rename) ((count)) || _hob_sessions ;;
    esac
}

_hobd() {
    local words cur prefix before='' option command=serve
    COMPREPLY=()
    _hob_words
    if ((${#words[@]} == 2)) && [[ $cur != -* ]]; then
        _hob_offer serve bench perplexity verify tokenize constrain template parse inspect media encode embed simulate
        return
    fi
    if ((${#words[@]} > 2)) && [[ ${words[1]} != -* ]]; then command=${words[1]}; fi
    _hob_option "-m --model --socket --ctx --parallel --threads --device --numa --nice --kv-bytes --kv-host-bytes --state-share --kv-type --cache-bytes --media-cache --vector-cache --packed-file \
--session-bytes --session-count --disk-reserve --session-ttl --prefixes --client-bytes --gateways --idle-exit --queue --queue-timeout --batch-tokens \
--batch-window --adapter --draft --speculate --stop-timeout --confine \
-p --prefill -n --decode -b --batch -t -r --repeat --depth --rows -f --file -c --chunks --grammar --regex --schema --cases --template --now --stream --policy --room --users \
--block --step-ms --load --stretch --requests --plot --mmproj --adapter-of"
    case $option in
    -m | --model | --draft) _hob_models; return ;;
    --device) _hob_offer cpu auto cuda cuda:0 cuda:0,1; return ;;
    --kv-type) _hob_offer f16 f32 q8; return ;;
    --packed-file | --confine | --numa) _hob_offer yes no; return ;;
    --speculate) _hob_offer auto off lookup draft; return ;;
    --policy) _hob_offer hob fcfs; return ;;
    --mmproj | --adapter-of) _hob_gguf; return ;;
    --socket | --prefixes | -f | --file | --grammar | --schema | --cases | --template | --plot) _hob_files; return ;;
    ?*) return ;;
    esac
    case $command:$cur in
    serve:-*)
        _hob_offer --model --socket --ctx --parallel --threads --device --numa --nice --kv-bytes --kv-host-bytes --state-share --kv-type --cache-bytes --media-cache --vector-cache --mmproj --packed-file \
            --session-bytes --session-count --disk-reserve --session-ttl --prefixes --client-bytes --gateways --idle-exit --queue \
            --queue-timeout --batch-tokens --batch-window --adapter --draft --speculate --stop-timeout --confine --system --verbose --quiet --help --version
        ;;
    bench:-*)
        _hob_offer --model --prefill --decode --batch --threads --repeat --depth --rows --numa --device --roofline --plot --json --help
        ;;
    perplexity:-*) _hob_offer --model --file --ctx --chunks --kv-type --threads --json --help ;;
    verify:-*) _hob_offer --model --help ;;
    tokenize:-*) _hob_offer --model --special --bos --detokenize --help ;;
    constrain:-*) _hob_offer --model --grammar --regex --schema --any-order --compact --schema-lenient --cases --json --help ;;
    template:-*) _hob_offer --model --template --now --help ;;
    parse:-*) _hob_offer --model --template --stream --help ;;
    inspect:-*) _hob_offer --json --adapter-of --supported --help ;;
    inspect:*) _hob_gguf ;;
    media:-*) _hob_offer --json --output --help ;;
    media:*) _hob_files ;;
    encode:-*) _hob_offer --mmproj --class-last --pooled --threads --json --output --help ;;
    encode:*) _hob_files ;;
    embed:-*) _hob_offer --model --jsonl --pooling --dims --no-normalize --batch --time --threads --json --help ;;
    simulate:-*)
        _hob_offer --policy --room --users --parallel --batch-tokens --block --step-ms --load --stretch --requests \
            --caches --json --plot --help
        ;;
    simulate:*) _hob_files ;;
    esac
}

_hob-http() {
    local words cur prefix before='' option
    COMPREPLY=()
    _hob_words
    _hob_option "-l --listen -s --socket -k --keys --host --max-body --max-connections --request-timeout --confine"
    case $option in
    -s | --socket | -k | --keys) _hob_files; return ;;
    --confine) _hob_offer yes no; return ;;
    ?*) return ;;
    esac
    case ${#words[@]}:${words[1]}:$cur in
    *:-*)
        _hob_offer --listen --socket --keys --host --max-body --max-connections --request-timeout --confine --verbose \
            --help --version
        ;;
    2:*) _hob_offer key ;;
    3:key:*) _hob_offer add ;;
    esac
}

complete -F _hob hob
complete -F _hobd hobd
complete -F _hob-http hob-http
