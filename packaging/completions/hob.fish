# SPDX-License-Identifier: MIT
# fish completion for hob and hobd. Installed as fish/vendor_completions.d/hob.fish (and hobd.fish, a link to it).
# Options stand here as hob --help and hobd COMMAND --help tell them (a test compares); models come from the folders,
# sessions from the daemon, if one runs: nothing is started, and nothing is said when there is none.

# The words before the cursor that are neither options nor their values, the program's name left out.
function __hob_words
    set -l skip
    set -l valued -m --model -s --system -f --file -S --session --fork --priority --context --n -n --max-tokens --temp --top-p --top-k \
        --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias \
        --mirostat --mirostat-eta --seed --stop --timeout --sha256 --prefix-file --suffix-file --at --max-lines
    for word in (commandline -opc)[2..]
        if test -n "$skip"
            set skip
        else if contains -- $word $valued
            set skip 1
        else if test "$word" = --
            return
        else if not string match -q -- '-*' $word
            echo -- $word
        end
    end
end

# The command is $argv[1]; $argv[2..]: and its next word one of these.
function __hob_at
    set -l words (__hob_words)
    test "$words[1]" = $argv[1]; and begin
        not set -q argv[2]; or contains -- "$words[2]" $argv[2..]
    end
end

function __hob_plain
    not contains -- (__hob_words)[1] status sessions models chat infill stop
end

function __hob_talks
    not contains -- (__hob_words)[1] status sessions models infill stop
end

function __hob_once
    not contains -- (__hob_words)[1] status sessions models chat stop
end

function __hob_answers
    not contains -- (__hob_words)[1] status sessions models stop
end

function __hob_models
    set -l data $XDG_DATA_HOME
    test -n "$data"; or set data ~/.local/share
    for file in $data/hob/models/*.gguf /var/lib/hob/models/*.gguf /usr/share/hob/models/*.gguf
        string replace -r '.*/(.*)\.gguf$' '$1' -- $file
    end
    __fish_complete_suffix .gguf
end

function __hob_own_models
    set -l data $XDG_DATA_HOME
    test -n "$data"; or set data ~/.local/share
    for file in $data/hob/models/*.gguf
        string replace -r '.*/(.*)\.gguf$' '$1' -- $file
    end
end

# Names out of the daemon's JSON, whose strings escape nothing but \ and ": other characters that would need it are
# in no name.
function __hob_sessions
    set -l words (commandline -opc)
    set -l model
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -m --model
                set model -m $words[(math $i + 1)]
            case '--model=*'
                set model $words[$i]
        end
    end
    set -l program (string replace -r '^~/' $HOME/ -- $words[1])
    timeout 1 $program sessions --json $model 2>/dev/null </dev/null | grep -oE '"name": ?"([^"\\\\]|\\\\.)*"' |
        string replace -r '^"name": ?"(.*)"$' '$1' | string replace -ar '\\\\(.)' '$1'
end

complete -c hob -f
complete -c hob -n 'test -z "$(__hob_words)"' -a status -d 'what the daemon is doing'
complete -c hob -n 'test -z "$(__hob_words)"' -a sessions -d 'the conversations that are kept'
complete -c hob -n 'test -z "$(__hob_words)"' -a models -d 'the models that are there'
complete -c hob -n 'test -z "$(__hob_words)"' -a chat -d talk
complete -c hob -n 'test -z "$(__hob_words)"' -a infill -d 'what belongs between two texts'
complete -c hob -n 'test -z "$(__hob_words)"' -a stop -d 'let the daemon finish and stop'
complete -c hob -n 'test "$(__hob_words)" = sessions' -a 'list show fork rename rm'
complete -c hob -n '__hob_at sessions show fork rename; and test (count (__hob_words)) = 2' -a '(__hob_sessions)'
complete -c hob -n 'test "$(__hob_words)" = models' -a 'list add pull rm'
complete -c hob -n '__hob_at models add; and test (count (__hob_words)) = 2' -a '(__fish_complete_suffix .gguf)'
complete -c hob -n '__hob_at models rm' -a '(__hob_own_models)'
complete -c hob -n '__hob_at models add' -l copy -d 'a copy, never a link'
complete -c hob -n '__hob_at models add' -l link -d 'a symbolic link'
complete -c hob -n '__hob_at models add pull' -l force -d 'replace a model of that name'
complete -c hob -n '__hob_at models add pull rm' -l system -d "the system's folder"
complete -c hob -n '__hob_at models pull' -l sha256 -x -d 'only what has this SHA-256'
complete -c hob -n '__hob_at models pull' -l insecure-http -d 'over http:// too'
complete -c hob -n '__hob_at sessions rm' -a '(__hob_sessions)'
complete -c hob -n 'not __hob_at models' -s m -l model -x -a '(__hob_models)' -d 'a model'
complete -c hob -s q -l quiet -d 'only errors on standard error'
complete -c hob -n 'not __hob_at models' -s v -l verbose -d 'a line of usage on standard error at the end'
complete -c hob -s h -l help -d 'print a summary'
complete -c hob -n 'not __hob_at models' -l version -d 'print the version'
complete -c hob -n 'not __hob_at stop; and not __hob_at chat; and not __hob_at infill; and not __hob_at models add pull rm' -l json -d 'with status and sessions: as JSON'
complete -c hob -n __hob_talks -s s -l system -x -d 'a system message in front'
complete -c hob -n __hob_plain -s f -l file -r -F -d 'put the text of a file before the prompt'
complete -c hob -n __hob_talks -s S -l session -x -a '(__hob_sessions)' -d 'continue, or begin, a session'
complete -c hob -n __hob_plain -s c -l continue -d 'continue your last session'
complete -c hob -n __hob_plain -l fork -x -d 'let the turn go to a new session'
complete -c hob -n __hob_answers -l priority -x -a 'infill interactive batch' -d 'which of your requests come first'
complete -c hob -n __hob_talks -l context -x -a 'refuse shift rotate' -d 'when the context is full'
complete -c hob -n __hob_talks -l wait -d 'wait for a session that is in use'
complete -c hob -n __hob_plain -l warm -d 'read the prompt, answer nothing'
complete -c hob -n __hob_plain -l detach -d 'do not wait for the answer, it is found in the session'
complete -c hob -n __hob_plain -l n -x -d 'answers to the prompt'
complete -c hob -n __hob_answers -s n -l max-tokens -x -d 'most tokens of the answer'
complete -c hob -n __hob_answers -l ignore-eos -d 'go on where the model would end'
complete -c hob -n __hob_answers -l temp -x -d temperature
complete -c hob -n __hob_answers -l top-p -x -d 'likeliest tokens of this probability together'
complete -c hob -n __hob_answers -l top-k -x -d 'this many likeliest tokens'
complete -c hob -n __hob_answers -l min-p -x -d 'least part of the likeliest probability'
complete -c hob -n __hob_answers -l repeat-penalty -x -d 'above 1: tokens that came already are less likely'
complete -c hob -n __hob_answers -l typical-p -x -d 'most typical tokens of this probability together'
complete -c hob -n __hob_answers -l frequency-penalty -x -d 'off a token\'s logit each time it came'
complete -c hob -n __hob_answers -l presence-penalty -x -d 'off a token\'s logit once it came'
complete -c hob -n __hob_answers -l repeat-last-n -x -d 'the penalties look at this many newest tokens'
complete -c hob -n __hob_answers -l logit-bias -x -d 'add to the logit of a token, by id or text'
complete -c hob -n __hob_answers -l mirostat -x -d 'keep the surprise near this many bits, 0: off'
complete -c hob -n __hob_answers -l mirostat-eta -x -d 'how fast it learns'
complete -c hob -n __hob_answers -l seed -x -d 'the same seed gives the same answer'
complete -c hob -n __hob_answers -l stop -x -d 'end the answer before this text'
complete -c hob -n __hob_plain -l raw -d 'no chat template: continue the text as it is'
complete -c hob -n __hob_plain -l special -d 'with --raw: special tokens in the text are parsed'
complete -c hob -n __hob_answers -l timeout -x -d 'give up after that long'
complete -c hob -n __hob_talks -l render -d 'show Markdown in colour, if it goes to a terminal'
complete -c hob -n __hob_plain -s x -l extract -d 'print only the first fenced block of code'
complete -c hob -n __hob_once -l no-stream -d 'print the answer at once when it is complete'
complete -c hob -n __hob_plain -l no-stdin -d 'do not read standard input'
complete -c hob -n 'not __hob_at stop; and not __hob_at chat; and not __hob_at sessions; and not __hob_at models; and not __hob_at infill' -l watch -d 'with status: again and again'
complete -c hob -n __hob_once -l jsonl -d 'print events, one JSON object a line'
complete -c hob -n __hob_once -l logprobs -d 'with --jsonl: ids and log-probabilities of all tokens'
complete -c hob -n '__hob_at infill' -l prefix-file -r -F -d 'the text before the gap'
complete -c hob -n '__hob_at infill' -l suffix-file -r -F -d 'the text behind the gap'
complete -c hob -n '__hob_at infill' -l at -x -d 'where the gap is in standard input'
complete -c hob -n '__hob_at infill' -l max-lines -x -d 'most lines of the answer'

# The command of hobd, which is its first word; none is serve.
function __hobd_at
    set -l word (commandline -opc)[2]
    string match -q -- '-*' "$word"; or test -z "$word"; and set word serve
    contains -- $word $argv
end

complete -c hobd -f
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a serve -d 'hold a model and answer on a socket'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a bench -d 'measure prefill and decode speed'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a perplexity -d 'measure how well a model predicts a text'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a verify -d 'compare with independent arithmetic'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a tokenize -d 'text to token ids, and back'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a template -d 'render a chat template'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a inspect -d 'show what is in a GGUF file'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a simulate -d 'replay a trace through scheduler and cache'
complete -c hobd -l help -d 'print a summary'
complete -c hobd -n 'not __hobd_at inspect simulate' -s m -l model -x -a '(__hob_models)' -d 'a model'
complete -c hobd -n '__hobd_at serve' -l socket -r -F -d 'listen there'
complete -c hobd -n '__hobd_at serve' -l ctx -x -d 'most tokens of one sequence'
complete -c hobd -n '__hobd_at serve simulate' -l parallel -x -d 'sequences at once'
complete -c hobd -n '__hobd_at serve' -l threads -x -d 'compute threads'
complete -c hobd -n '__hobd_at serve' -l kv-bytes -x -d 'the whole KV pool'
complete -c hobd -n '__hobd_at serve perplexity' -l kv-type -x -a 'f16 f32 q8' -d 'how K and V are kept'
complete -c hobd -n '__hobd_at serve' -l cache-bytes -x -d 'KV kept on disk'
complete -c hobd -n '__hobd_at serve' -l packed-file -x -a 'yes no' -d 'keep repacked weights in a file'
complete -c hobd -n '__hobd_at serve' -l client-bytes -x -d 'unread requests and answers'
complete -c hobd -n '__hobd_at serve' -l session-bytes -x -d 'a user\'s sessions on disk'
complete -c hobd -n '__hobd_at serve' -l session-count -x -d 'sessions of a user'
complete -c hobd -n '__hobd_at serve' -l disk-reserve -x -d 'free space that stays free'
complete -c hobd -n '__hobd_at serve' -l session-ttl -x -d 'forget sessions unused for so long'
complete -c hobd -n '__hobd_at serve' -l prefixes -x -a '(__fish_complete_directories)' -d 'prompts kept warm for all'
complete -c hobd -n '__hobd_at serve' -l idle-exit -x -d 'exit after that long without a request'
complete -c hobd -n '__hobd_at serve' -l queue -x -d 'requests that may wait for a place'
complete -c hobd -n '__hobd_at serve' -l queue-timeout -x -d 'how long one may wait there'
complete -c hobd -n '__hobd_at serve simulate' -l batch-tokens -x -d 'most tokens of one step'
complete -c hobd -n '__hobd_at serve' -l batch-window -x -d 'wait that long for company before a step'
complete -c hobd -n '__hobd_at serve' -l stop-timeout -x -d 'how long answers may go on when stopping'
complete -c hobd -n '__hobd_at serve' -l confine -x -a 'yes no' -d 'enter the sandbox'
complete -c hobd -n '__hobd_at serve' -l system -d "the system's places"
complete -c hobd -n '__hobd_at serve' -s v -l verbose -d 'log more'
complete -c hobd -n '__hobd_at serve' -s q -l quiet -d 'log warnings and errors only'
complete -c hobd -n '__hobd_at serve' -l version -d 'print the version'
complete -c hobd -n '__hobd_at bench' -s p -l prefill -x -d 'tokens of the prompt'
complete -c hobd -n '__hobd_at bench' -s n -l decode -x -d 'steps of each decode'
complete -c hobd -n '__hobd_at bench' -s b -l batch -x -d 'sequences decoded together'
complete -c hobd -n '__hobd_at bench' -s r -l repeat -x -d 'measurements of each'
complete -c hobd -n '__hobd_at bench perplexity' -s t -l threads -x -d 'compute threads'
complete -c hobd -n '__hobd_at bench' -l depth -x -d 'tokens that are in the sequences before'
complete -c hobd -n '__hobd_at bench' -l roofline -d 'bytes moved, and where the time goes'
complete -c hobd -n '__hobd_at inspect' -l json -d 'for programs, one object a line'
complete -c hobd -n '__hobd_at bench perplexity simulate' -l json -d 'one JSON object'
complete -c hobd -n '__hobd_at perplexity' -s f -l file -r -F -d 'the text to score'
complete -c hobd -n '__hobd_at perplexity' -s c -l ctx -x -d 'tokens of a window'
complete -c hobd -n '__hobd_at perplexity' -l chunks -x -d 'only the first windows'
complete -c hobd -n '__hobd_at tokenize' -l special -d 'special tokens in the text are such'
complete -c hobd -n '__hobd_at tokenize' -l bos -d "the model's first token in front"
complete -c hobd -n '__hobd_at tokenize' -l detokenize -d 'ids to text'
complete -c hobd -n '__hobd_at template' -l template -r -F -d 'this template instead'
complete -c hobd -n '__hobd_at template' -l now -x -d 'what strftime_now sees'
complete -c hobd -n '__hobd_at inspect' -l supported -d 'what can be run'
complete -c hobd -n '__hobd_at inspect' -a '(__fish_complete_suffix .gguf)'
complete -c hobd -n '__hobd_at simulate' -l policy -x -a 'hob fcfs' -d 'of scheduling'
complete -c hobd -n '__hobd_at simulate' -l room -x -d 'percent of the blocks that the cache holds'
complete -c hobd -n '__hobd_at simulate' -l users -x -d 'made-up users'
complete -c hobd -n '__hobd_at simulate' -l block -x -d 'tokens in a block of the index'
complete -c hobd -n '__hobd_at simulate' -l step-ms -x -d 'what a step costs'
complete -c hobd -n '__hobd_at simulate' -l load -x -d 'how busy the machine would be'
complete -c hobd -n '__hobd_at simulate' -l stretch -x -d 'slow the clock of the trace'
complete -c hobd -n '__hobd_at simulate' -l requests -x -d 'only the first ones'
complete -c hobd -n '__hobd_at simulate' -l caches -d 'only what ways to evict would find'
complete -c hobd -n '__hobd_at simulate' -l plot -r -F -d 'a picture as SVG'
complete -c hobd -n '__hobd_at simulate' -a '(__fish_complete_suffix .jsonl)'
