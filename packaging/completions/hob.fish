# SPDX-License-Identifier: MIT
# fish completion for hob and hobd. Installed as fish/vendor_completions.d/hob.fish (and hobd.fish, a link to it).
# The options are those of hob --help and hobd COMMAND --help (a test compares them). Model names come from the models
# folders. Session names come from the running daemon; without one there are none, and no daemon is started.

# The words before the cursor that are neither options nor their values, the program's name left out.
function __hob_words
    set -l skip
    set -l valued -m --model -s --system -f --file -a --image --audio -t --template -p --param -S --session --fork --priority --speculate --adapter --adapter-of --context --n -n --max-tokens --temp --top-p --top-k \
        --min-p --repeat-penalty --typical-p --frequency-penalty --presence-penalty --repeat-last-n --logit-bias \
        --mirostat --mirostat-eta --seed --stop --timeout --sha256 --prefix-file --suffix-file --at --max-lines --out --jobs --dims --pooling \
        --schema --grammar --regex --choice --on-limit --think --think-budget --tools --tool --tool-choice --tool-rounds \
        --tool-timeout --log-size --log-age --limit --number --prefix --question-prefix --max-size
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
    not contains -- (__hob_words)[1] status sessions models log media chat infill embed rank index find templates do stop
end

# The same, without map.
function __hob_lines
    not contains -- (__hob_words)[1] status sessions models log media chat infill map embed rank index find templates do stop
end

# The same, without batch and map.
function __hob_one
    not contains -- (__hob_words)[1] status sessions models log media chat infill batch map embed rank index find templates do stop
end

function __hob_talks
    not contains -- (__hob_words)[1] status sessions models log media infill embed rank index find templates do stop
end

# The same, without batch and map.
function __hob_turns
    not contains -- (__hob_words)[1] status sessions models log media infill batch map embed rank index find templates do stop
end

# What may have files.
function __hob_files
    not contains -- (__hob_words)[1] status sessions models log media infill map embed rank index find templates stop
end

function __hob_thinks
    not contains -- (__hob_words)[1] status sessions models log media infill embed rank index find templates stop
end

function __hob_ends
    not contains -- (__hob_words)[1] status sessions models log media embed rank index find templates do stop
end

function __hob_once
    not contains -- (__hob_words)[1] status sessions models log media chat batch map embed rank index find templates do stop
end

function __hob_answers
    not contains -- (__hob_words)[1] status sessions models log media embed rank index find templates stop
end

function __hob_logs
    not contains -- (__hob_words)[1] status sessions models log media batch map embed rank index find templates stop
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

# Session names from the daemon's JSON. Its strings escape only \ and ", since a name holds no control character.
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

# Numbers of the last exchanges of the log.
function __hob_exchanges
    set -l program (string replace -r '^~/' $HOME/ -- (commandline -opc)[1])
    timeout 1 $program log list 2>/dev/null </dev/null | string match -r '^@\d+'
end

# Names of templates, as the program lists them.
function __hob_templates
    set -l program (string replace -r '^~/' $HOME/ -- (commandline -opc)[1])
    timeout 1 $program templates 2>/dev/null </dev/null | sed '1d; s/  .*//'
end

complete -c hob -f
complete -c hob -n 'test -z "$(__hob_words)"' -a status -d 'show the status of the daemon'
complete -c hob -n 'test -z "$(__hob_words)"' -a sessions -d 'manage stored sessions'
complete -c hob -n 'test -z "$(__hob_words)"' -a models -d 'manage model files'
complete -c hob -n 'test -z "$(__hob_words)"' -a log -d 'list, search and remove logged exchanges'
complete -c hob -n 'test -z "$(__hob_words)"' -a media -d 'show what images and sounds are'
complete -c hob -n 'test -z "$(__hob_words)"' -a chat -d 'chat interactively'
complete -c hob -n 'test -z "$(__hob_words)"' -a infill -d 'generate the text between two texts'
complete -c hob -n 'test -z "$(__hob_words)"' -a batch -d 'answer the prompts of a file'
complete -c hob -n 'test -z "$(__hob_words)"' -a map -d 'answer a prompt for each file'
complete -c hob -n 'test -z "$(__hob_words)"' -a embed -d 'print the vectors of texts'
complete -c hob -n 'test -z "$(__hob_words)"' -a rank -d 'order texts by how well they answer'
complete -c hob -n 'test -z "$(__hob_words)"' -a index -d 'index the texts of a folder'
complete -c hob -n 'test -z "$(__hob_words)"' -a find -d 'search them by meaning'
complete -c hob -n 'test -z "$(__hob_words)"' -a templates -d 'manage templates'
complete -c hob -n 'test -z "$(__hob_words)"' -a do -d 'write a command line and run it after a key'
complete -c hob -n 'test "$(__hob_words)" = templates' -a 'list show edit'
complete -c hob -n '__hob_at templates show edit; and test (count (__hob_words)) = 2' -a '(__hob_templates)'
complete -c hob -n __hob_one -s t -l template -x -a '(__hob_templates)' -d 'use this template'
complete -c hob -n __hob_one -s p -l param -x -d 'a variable of the template'
complete -c hob -n '__hob_at do' -l print -d 'print the command, do not ask'
complete -c hob -n '__hob_at do' -l no-context -d 'do not send system, shell and directory'
complete -c hob -n '__hob_at do' -l no-stdin -d 'do not read standard input'
complete -c hob -n 'test -z "$(__hob_words)"' -a stop -d 'stop the daemon'
complete -c hob -n 'test "$(__hob_words)" = sessions' -a 'list show search fork rename rm'
complete -c hob -n '__hob_at sessions show fork rename; and test (count (__hob_words)) = 2' -a '(__hob_sessions)'
complete -c hob -n 'test "$(__hob_words)" = models' -a 'list add pull rm'
complete -c hob -n '__hob_at models add; and test (count (__hob_words)) = 2' -a '(__fish_complete_suffix .gguf)'
complete -c hob -n '__hob_at models rm' -a '(__hob_own_models)'
complete -c hob -n '__hob_at models add' -l copy -d 'copy the file, never link it'
complete -c hob -n '__hob_at models add' -l link -d 'make a symbolic link'
complete -c hob -n '__hob_at models add pull' -l force -d 'replace the model of that name'
complete -c hob -n '__hob_at models add pull rm' -l system -d "use the system's folder"
complete -c hob -n '__hob_at models add rm' -l adapter-of -x -a '(__hob_own_models)' -d 'an adapter of this model'
complete -c hob -n '__hob_at models pull' -l sha256 -x -d 'accept only this SHA-256'
complete -c hob -n '__hob_at models pull' -l insecure-http -d 'also allow http://'
complete -c hob -n '__hob_at index' -a '(__fish_complete_directories)'
complete -c hob -n '__hob_at index' -l dims -x -d 'first values of each vector to use'
complete -c hob -n '__hob_at index' -l prefix -x -d 'text before each chunk'
complete -c hob -n '__hob_at index' -l question-prefix -x -d 'text before each question'
complete -c hob -n '__hob_at index' -l max-size -x -d 'leave out larger files'
complete -c hob -n '__hob_at index' -l no-ignore -d 'do not read .gitignore files'
complete -c hob -n '__hob_at index' -l list -d 'list the indexes'
complete -c hob -n '__hob_at index' -l rm -d 'remove the index'
complete -c hob -n '__hob_at index; or __hob_at find' -l jsonl -d 'print JSON'
complete -c hob -n '__hob_at find' -s a -l answer -d 'answer from what was found'
complete -c hob -n '__hob_at find' -s n -l number -x -d 'maximum number of places'
complete -c hob -n 'test "$(__hob_words)" = log' -a 'list search show rm export on off'
complete -c hob -n '__hob_at log show rm export' -a '(__hob_exchanges)'
complete -c hob -n '__hob_at log; and not __hob_at log show rm export on off' -s n -l limit -x -d 'maximum number of exchanges'
complete -c hob -n '__hob_at log rm' -l all -d 'remove every exchange'
complete -c hob -n '__hob_at log export' -l jsonl -d 'print lines of JSON'
complete -c hob -n '__hob_at media' -F
complete -c hob -n '__hob_at media' -s o -l output -r -F -d 'write the pixels or samples'
complete -c hob -n '__hob_at sessions rm' -a '(__hob_sessions)'
complete -c hob -n 'not __hob_at models; and not __hob_at log; and not __hob_at media' -s m -l model -x -a '(__hob_models)' -d 'model'
complete -c hob -n 'not __hob_at media' -s q -l quiet -d 'print only errors'
complete -c hob -n 'not __hob_at models; and not __hob_at log; and not __hob_at media; and not __hob_at index' -s v -l verbose -d 'print token counts and times'
complete -c hob -s h -l help -d 'print a summary'
complete -c hob -n 'not __hob_at models; and not __hob_at log; and not __hob_at media; and not __hob_at index; and not __hob_at find' -l version -d 'print the version'
complete -c hob -n 'not __hob_at stop; and not __hob_at chat; and not __hob_at infill; and not __hob_at batch; and not __hob_at map; and not __hob_at embed; and not __hob_at rank; and not __hob_at index; and not __hob_at find; and not __hob_at models add pull rm; and not __hob_at log rm export on off; and not __hob_at templates; and not __hob_at do' -l json -d 'print JSON'
complete -c hob -n __hob_talks -s s -l system -x -d 'set the system message'
complete -c hob -n __hob_files -s a -l image -r -F -d 'put this image before the prompt'
complete -c hob -n __hob_files -l audio -r -F -d 'put this sound before the prompt'
complete -c hob -n __hob_files -s f -l file -r -F -d "put this file's text before the prompt"
complete -c hob -n __hob_turns -s S -l session -x -a '(__hob_sessions)' -d 'continue or create a session'
complete -c hob -n __hob_one -s c -l continue -d 'continue your last session'
complete -c hob -n 'test "$(commandline -opc)[-1]" = -c; or test "$(commandline -opc)[-1]" = --continue' -a '(__hob_exchanges)'
complete -c hob -n __hob_logs -l log -d 'write this exchange to the log'
complete -c hob -n __hob_logs -l no-log -d 'do not write it to the log'
complete -c hob -n __hob_logs -l log-size -x -d 'limit of the log'
complete -c hob -n __hob_logs -l log-age -x -d 'limit of the age of an exchange'
complete -c hob -n __hob_one -l fork -x -d 'write the turn to a new session'
complete -c hob -n __hob_answers -l speculate -x -a 'auto off lookup draft' -d 'propose tokens'
complete -c hob -n __hob_answers -l adapter -x -d 'low-rank adapter of the model'
complete -c hob -n __hob_answers -l priority -x -a 'infill interactive batch' -d 'order among your own requests'
complete -c hob -n __hob_talks -l context -x -a 'refuse shift rotate' -d 'policy on a full context'
complete -c hob -n __hob_turns -l wait -d 'wait while the session is in use'
complete -c hob -n __hob_one -l warm -d 'prefill the prompt, generate nothing'
complete -c hob -n __hob_one -l detach -d 'exit once the request is accepted'
complete -c hob -n __hob_one -l n -x -d 'number of answers'
complete -c hob -n __hob_answers -s n -l max-tokens -x -d 'maximum tokens to generate'
complete -c hob -n __hob_ends -l ignore-eos -d 'ignore end-of-generation tokens'
complete -c hob -n __hob_answers -l temp -x -d temperature
complete -c hob -n __hob_answers -l top-p -x -d 'top-p (nucleus) sampling'
complete -c hob -n __hob_answers -l top-k -x -d 'keep the N most likely tokens'
complete -c hob -n __hob_answers -l min-p -x -d 'min-p sampling'
complete -c hob -n __hob_answers -l repeat-penalty -x -d 'penalize repeated tokens'
complete -c hob -n __hob_answers -l typical-p -x -d 'locally typical sampling'
complete -c hob -n __hob_answers -l frequency-penalty -x -d 'penalty per occurrence of a token'
complete -c hob -n __hob_answers -l presence-penalty -x -d 'penalty for a token that occurred'
complete -c hob -n __hob_answers -l repeat-last-n -x -d 'number of last tokens that the penalties look at'
complete -c hob -n __hob_answers -l logit-bias -x -d 'add to the logit of a token, by id or text'
complete -c hob -n __hob_answers -l mirostat -x -d 'Mirostat 2 target in bits'
complete -c hob -n __hob_answers -l mirostat-eta -x -d 'Mirostat 2 learning rate'
complete -c hob -n __hob_answers -l seed -x -d 'random seed'
complete -c hob -n __hob_ends -l stop -x -d 'stop before this text'
complete -c hob -n __hob_talks -l schema -r -F -d 'answer with JSON of this JSON Schema'
complete -c hob -n __hob_talks -l grammar -r -F -d 'answer with a text of this GBNF grammar'
complete -c hob -n __hob_talks -l regex -x -d 'answer with a text that matches'
complete -c hob -n __hob_talks -l choice -x -d 'answer with one of these texts'
complete -c hob -n __hob_talks -l on-limit -x -a 'close cut' -d 'end of an answer that is too long'
complete -c hob -n __hob_talks -l schema-lenient -d 'with --schema: ignore what cannot be enforced'
complete -c hob -n __hob_talks -l any-order -d 'with --schema: properties in any order'
complete -c hob -n __hob_talks -l compact -d 'with --schema: no white space'
complete -c hob -n __hob_thinks -l think -x -a 'hide show stderr on off' -d 'where the thinking is printed'
complete -c hob -n __hob_thinks -l think-budget -x -d 'end the thinking after this many tokens'
complete -c hob -n __hob_lines -l tools -r -F -d 'print calls of the tools of this list'
complete -c hob -n __hob_turns -l tool -r -F -d 'run this program when the model calls it'
complete -c hob -n '__hob_talks; and not __hob_at map' -l tool-choice -x -a 'auto none required' -d 'whether the model calls tools'
complete -c hob -n __hob_turns -l yes -d 'run calls without a question'
complete -c hob -n __hob_turns -l tool-rounds -x -d 'maximum answers with calls'
complete -c hob -n __hob_turns -l tool-timeout -x -d 'end a call after this time'
complete -c hob -n __hob_plain -l raw -d 'do not apply the chat template'
complete -c hob -n __hob_plain -l special -d 'with --raw: parse special tokens'
complete -c hob -n __hob_answers -l timeout -x -d 'fail after this time'
complete -c hob -n __hob_turns -l render -d 'style Markdown on a terminal'
complete -c hob -n __hob_plain -s x -l extract -d 'print only the first fenced code block'
complete -c hob -n __hob_once -l no-stream -d 'print the answer when it is complete'
complete -c hob -n __hob_one -l no-stdin -d 'do not read standard input'
complete -c hob -n 'not __hob_at stop; and not __hob_at chat; and not __hob_at sessions; and not __hob_at models; and not __hob_at infill; and not __hob_at batch; and not __hob_at map; and not __hob_at embed; and not __hob_at rank; and not __hob_at index; and not __hob_at find; and not __hob_at log; and not __hob_at templates; and not __hob_at do' -l watch -d 'refresh the status periodically'
complete -c hob -n __hob_once -l jsonl -d 'print events as JSON, one object per line'
complete -c hob -n '__hob_once; or __hob_at batch' -l logprobs -d 'with --jsonl: token ids and log-probabilities'
complete -c hob -n '__hob_at infill' -l prefix-file -r -F -d 'text before the gap'
complete -c hob -n '__hob_at infill' -l suffix-file -r -F -d 'text after the gap'
complete -c hob -n '__hob_at infill' -l at -x -d 'byte offset of the gap in standard input'
complete -c hob -n '__hob_at batch; or __hob_at map' -F
complete -c hob -n '__hob_at batch' -l out -r -F -d 'write the results to this file'
complete -c hob -n '__hob_at batch' -l ordered -d 'results in the order of the lines'
complete -c hob -n '__hob_at batch; or __hob_at map' -l jobs -x -d 'requests at a time'
complete -c hob -n '__hob_at batch; or __hob_at map' -l resume -d 'skip what is written already'
complete -c hob -n '__hob_at map' -l write -d 'write each answer to FILE.out'
complete -c hob -n '__hob_at map' -s 0 -l null -d 'NULs end the names on standard input'
complete -c hob -n '__hob_at infill' -l max-lines -x -d 'maximum lines to generate'
complete -c hob -n '__hob_at embed' -l dims -x -d 'only the first values of each vector'
complete -c hob -n '__hob_at embed' -l pooling -x -a 'mean cls last' -d 'how token vectors become one'
complete -c hob -n '__hob_at embed' -l npy -d 'write the .npy format of NumPy'
complete -c hob -n '__hob_at embed; or __hob_at rank' -l jsonl -d 'print JSON, one object per line'
complete -c hob -n '__hob_at embed; or __hob_at rank' -l priority -x -a 'infill interactive batch' -d 'order among your own requests'
complete -c hob -n '__hob_at embed; or __hob_at rank' -l timeout -x -d 'fail after this time'
complete -c hob -n '__hob_at embed; or __hob_at rank' -F

# The command of hobd is its first word; without one it is serve.
function __hobd_at
    set -l word (commandline -opc)[2]
    string match -q -- '-*' "$word"; or test -z "$word"; and set word serve
    contains -- $word $argv
end

complete -c hobd -f
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a serve -d 'serve a model on a Unix socket'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a bench -d 'measure prefill and decode speed'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a perplexity -d 'measure how well a model predicts a text'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a verify -d 'compare the kernels with a reference'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a tokenize -d 'convert text to token ids and back'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a constrain -d 'feed a text to a grammar, regular expression or schema'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a template -d 'render a chat template'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a parse -d 'show the parts of an answer'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a inspect -d 'show the contents of a GGUF file'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a media -d 'decode images and sounds'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a encode -d 'compute the embeddings of an image or a sound'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a embed -d 'compute the vectors or scores of texts'
complete -c hobd -n 'test (count (commandline -opc)) = 1' -a simulate -d 'replay a trace through the scheduler and the cache'
complete -c hobd -l help -d 'print a summary'
complete -c hobd -n 'not __hobd_at inspect media encode simulate' -s m -l model -x -a '(__hob_models)' -d 'model'
complete -c hobd -n '__hobd_at serve' -l socket -r -F -d 'path of the socket'
complete -c hobd -n '__hobd_at serve' -l ctx -x -d 'maximum tokens of one sequence'
complete -c hobd -n '__hobd_at serve simulate' -l parallel -x -d 'maximum concurrent sequences'
complete -c hobd -n '__hobd_at serve' -l threads -x -d 'compute threads'
complete -c hobd -n '__hobd_at serve bench' -l device -x -a 'cpu auto cuda cuda:0 cuda:0,1' -d 'what computes the model'
complete -c hobd -n '__hobd_at serve bench' -l numa -x -a 'yes no' -d 'spread over NUMA nodes'
complete -c hobd -n '__hobd_at serve' -l nice -x -d 'nice value of the threads that compute'
complete -c hobd -n '__hobd_at serve' -l kv-bytes -x -d 'size of the KV pool'
complete -c hobd -n '__hobd_at serve' -l kv-host-bytes -x -d 'host memory for KV behind a GPU'
complete -c hobd -n '__hobd_at serve' -l state-share -x -d 'percent of the KV pool for recurrent states'
complete -c hobd -n '__hobd_at serve perplexity' -l kv-type -x -a 'f16 f32 q8' -d 'type of keys and values'
complete -c hobd -n '__hobd_at serve' -l cache-bytes -x -d 'size of the KV cache on disk'
complete -c hobd -n '__hobd_at serve' -l media-cache -x -d 'embeddings of images in memory'
complete -c hobd -n '__hobd_at serve' -l vector-cache -x -d 'vectors of texts in memory; 0: none'
complete -c hobd -n '__hobd_at serve' -l packed-file -x -a 'yes no' -d 'store repacked weights in a file'
complete -c hobd -n '__hobd_at serve' -l client-bytes -x -d 'memory for client input and output'
complete -c hobd -n '__hobd_at serve' -l gateways -x -d 'who may name users'
complete -c hobd -n '__hobd_at serve' -l session-bytes -x -d 'disk limit for sessions of one user'
complete -c hobd -n '__hobd_at serve' -l session-count -x -d 'maximum sessions of one user'
complete -c hobd -n '__hobd_at serve' -l disk-reserve -x -d 'disk space to keep free'
complete -c hobd -n '__hobd_at serve' -l session-ttl -x -d 'remove sessions unused for this time'
complete -c hobd -n '__hobd_at serve' -l prefixes -x -a '(__fish_complete_directories)' -d 'directory of shared system prompts'
complete -c hobd -n '__hobd_at serve' -l idle-exit -x -d 'exit after this time without requests'
complete -c hobd -n '__hobd_at serve' -l queue -x -d 'maximum queued requests'
complete -c hobd -n '__hobd_at serve' -l queue-timeout -x -d 'maximum time in the queue'
complete -c hobd -n '__hobd_at serve simulate' -l batch-tokens -x -d 'maximum tokens of one step'
complete -c hobd -n '__hobd_at serve' -l batch-window -x -d 'wait for more requests before a step'
complete -c hobd -n '__hobd_at serve' -l adapter -x -d 'low-rank adapter of the model'
complete -c hobd -n '__hobd_at serve' -l draft -x -a '(__hob_models; __fish_complete_suffix .gguf)' -d 'smaller model that proposes tokens'
complete -c hobd -n '__hobd_at serve' -l speculate -x -a 'auto off lookup draft' -d 'propose tokens'
complete -c hobd -n '__hobd_at serve' -l stop-timeout -x -d 'time limit for shutdown'
complete -c hobd -n '__hobd_at serve' -l confine -x -a 'yes no' -d 'enter the sandbox'
complete -c hobd -n '__hobd_at serve' -l system -d "use the system's directories"
complete -c hobd -n '__hobd_at serve' -s v -l verbose -d 'log more'
complete -c hobd -n '__hobd_at serve' -s q -l quiet -d 'log only warnings and errors'
complete -c hobd -n '__hobd_at serve' -l version -d 'print the version'
complete -c hobd -n '__hobd_at bench' -s p -l prefill -x -d 'prompt tokens'
complete -c hobd -n '__hobd_at bench' -s n -l decode -x -d 'steps of each decode'
complete -c hobd -n '__hobd_at bench' -s b -l batch -x -d 'numbers of sequences to decode together'
complete -c hobd -n '__hobd_at bench' -s r -l repeat -x -d 'number of measurements'
complete -c hobd -n '__hobd_at bench perplexity encode embed' -s t -l threads -x -d 'compute threads'
complete -c hobd -n '__hobd_at bench' -l depth -x -d 'tokens already in each sequence'
complete -c hobd -n '__hobd_at bench' -l rows -x -d 'tokens of the passes of one sequence'
complete -c hobd -n '__hobd_at bench' -l roofline -d 'show bytes read and time per operation'
complete -c hobd -n '__hobd_at media encode' -F
complete -c hobd -n '__hobd_at serve encode' -l mmproj -r -F -d 'encoder of images or sounds'
complete -c hobd -n '__hobd_at encode' -l class-last -d 'the class row is the last one'
complete -c hobd -n '__hobd_at encode' -l pooled -d 'Voxtral: the mean of two rows'
complete -c hobd -n '__hobd_at encode' -s o -l output -r -F -d 'write the embeddings'
complete -c hobd -n '__hobd_at embed' -l jsonl -d 'each line is JSON'
complete -c hobd -n '__hobd_at embed' -l pooling -x -a 'mean cls last rank none' -d 'what the vector is'
complete -c hobd -n '__hobd_at embed' -l dims -x -d 'values of a vector'
complete -c hobd -n '__hobd_at embed' -l no-normalize -d 'do not divide by the length'
complete -c hobd -n '__hobd_at embed' -l batch -x -d 'tokens of a step'
complete -c hobd -n '__hobd_at embed' -l time -d 'print the speed'
complete -c hobd -n '__hobd_at media' -s o -l output -r -F -d 'write the pixels or samples'
complete -c hobd -n '__hobd_at inspect media embed' -l json -d 'print JSON, one object per line'
complete -c hobd -n '__hobd_at bench perplexity constrain encode simulate' -l json -d 'print one JSON object'
complete -c hobd -n '__hobd_at perplexity' -s f -l file -r -F -d 'text to score'
complete -c hobd -n '__hobd_at perplexity' -s c -l ctx -x -d 'tokens of a window'
complete -c hobd -n '__hobd_at perplexity' -l chunks -x -d 'number of windows to score'
complete -c hobd -n '__hobd_at tokenize' -l special -d 'parse special tokens'
complete -c hobd -n '__hobd_at tokenize' -l bos -d 'add the BOS token'
complete -c hobd -n '__hobd_at tokenize' -l detokenize -d 'convert token ids to text'
complete -c hobd -n '__hobd_at constrain' -l grammar -r -F -d 'grammar in GBNF'
complete -c hobd -n '__hobd_at constrain' -l regex -x -d 'regular expression'
complete -c hobd -n '__hobd_at constrain' -l schema -r -F -d 'JSON Schema'
complete -c hobd -n '__hobd_at constrain' -l any-order -d 'properties in any order'
complete -c hobd -n '__hobd_at constrain' -l compact -d 'no white space'
complete -c hobd -n '__hobd_at constrain' -l schema-lenient -d 'list and ignore what cannot be enforced'
complete -c hobd -n '__hobd_at constrain' -l cases -r -F -d 'schemas and tests, one a line'
complete -c hobd -n '__hobd_at template parse' -l template -r -F -d 'template file'
complete -c hobd -n '__hobd_at template' -l now -x -d 'time that strftime_now returns'
complete -c hobd -n '__hobd_at parse' -l stream -x -d 'bytes of a piece of the answer'
complete -c hobd -n '__hobd_at inspect' -l adapter-of -r -F -d 'with --json: the model of adapters'
complete -c hobd -n '__hobd_at inspect' -l supported -d 'list supported models and types'
complete -c hobd -n '__hobd_at inspect' -a '(__fish_complete_suffix .gguf)'
complete -c hobd -n '__hobd_at simulate' -l policy -x -a 'hob fcfs' -d 'scheduling policy'
complete -c hobd -n '__hobd_at simulate' -l room -x -d 'cache size in percent of the blocks'
complete -c hobd -n '__hobd_at simulate' -l users -x -d 'number of simulated users'
complete -c hobd -n '__hobd_at simulate' -l block -x -d 'tokens per block of the index'
complete -c hobd -n '__hobd_at simulate' -l step-ms -x -d 'cost model of a step'
complete -c hobd -n '__hobd_at simulate' -l load -x -d 'target load of the machine'
complete -c hobd -n '__hobd_at simulate' -l stretch -x -d 'slow down the clock of the trace'
complete -c hobd -n '__hobd_at simulate' -l requests -x -d 'number of requests to replay'
complete -c hobd -n '__hobd_at simulate' -l caches -d 'compare eviction policies only'
complete -c hobd -n '__hobd_at bench simulate' -l plot -r -F -d 'write an SVG plot'
complete -c hobd -n '__hobd_at simulate' -a '(__fish_complete_suffix .jsonl)'

complete -c hob-http -f
complete -c hob-http -n '__fish_is_first_arg' -a key -d 'make keys of clients'
complete -c hob-http -n '__fish_seen_subcommand_from key' -a add -d 'make a key'
complete -c hob-http -s l -l listen -x -d 'address and port'
complete -c hob-http -s s -l socket -r -F -d 'socket of a hobd'
complete -c hob-http -s k -l keys -r -F -d 'keys of clients'
complete -c hob-http -l host -x -d 'further valid name of this host in requests'
complete -c hob-http -l max-body -x -d 'maximum size of a request'
complete -c hob-http -l max-connections -x -d 'maximum number of connections'
complete -c hob-http -l request-timeout -x -d 'maximum time for a request to arrive'
complete -c hob-http -l confine -x -a 'yes no' -d 'enter the sandbox'
complete -c hob-http -s v -l verbose -d 'also log each request'
complete -c hob-http -s h -l help -d 'print the help'
complete -c hob-http -l version -d 'print the version'
