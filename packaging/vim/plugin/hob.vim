" SPDX-License-Identifier: MIT
" hob for Vim 9 and Neovim: filter lines, stream answers into the text, complete code. Copy this file into a plugin directory.
"
"   :[range]Hob [PROMPT]         replace the lines (default: the current line) with the answer; on failure they stay
"   :[range]HobInsert [PROMPT]   send the lines of the range, if given, and stream the answer below
"   :HobInfill[!] [OPTIONS]      complete the text before the cursor's character, with ! after it; the model must have
"                                fill-in-the-middle tokens; OPTIONS of hob infill, such as --max-lines 5
"   :HobStop                     stop all running answers
"
" <Plug>(hob-infill) is the same in insert mode: imap <C-g><C-g> <Plug>(hob-infill)
"
" g:hob_command: a list, the program and its options (default: ['hob', '-q']). g:hob_running: number of running answers.

if exists('g:loaded_hob') || (!has('job') && !has('nvim'))
  finish
endif
let g:loaded_hob = 1
let g:hob_running = 0
let s:answers = {}
let s:next = 1

function! s:argv(more, prompt) abort
  return get(g:, 'hob_command', ['hob', '-q']) + a:more + (empty(a:prompt) ? [] : ['--', a:prompt])
endfunction

function! s:complain(text) abort
  echohl ErrorMsg
  echomsg empty(a:text) ? 'hob failed' : a:text
  echohl None
endfunction

function! s:filter(first, last, prompt) abort
  let argv = s:argv([], a:prompt)
  let lines = systemlist(has('nvim') ? argv : join(map(argv, 'shellescape(v:val)')), getline(a:first, a:last))
  if v:shell_error
    return s:complain(get(lines, -1, ''))
  endif
  call append(a:last, lines)
  silent execute a:first . ',' . a:last . 'delete _'
endfunction

" A mark holds the last line of an answer. It moves with the text when other lines are edited.
if has('nvim')
  let s:space = nvim_create_namespace('hob')
  function! s:mark(answer, line) abort
    call nvim_buf_set_extmark(a:answer.buffer, s:space, a:line - 1, 0, {'id': a:answer.id})
  endfunction
  function! s:line(answer) abort
    let at = nvim_buf_get_extmark_by_id(a:answer.buffer, s:space, a:answer.id, {})
    return empty(at) ? 0 : at[0] + 1
  endfunction
  function! s:unmark(answer) abort
    call nvim_buf_del_extmark(a:answer.buffer, s:space, a:answer.id)
  endfunction
else
  call prop_type_add('hob', {})
  function! s:mark(answer, line) abort
    call s:unmark(a:answer)
    call prop_add(a:line, 1, {'length': 0, 'type': 'hob', 'id': a:answer.id, 'bufnr': a:answer.buffer})
  endfunction
  function! s:line(answer) abort
    let found = prop_list(1, {'bufnr': a:answer.buffer, 'end_lnum': -1, 'types': ['hob'], 'ids': [a:answer.id]})
    return empty(found) ? 0 : found[0].lnum
  endfunction
  function! s:unmark(answer) abort
    call prop_remove({'type': 'hob', 'id': a:answer.id, 'both': 1, 'bufnr': a:answer.buffer, 'all': 1})
  endfunction
endif

" Append the pieces of a text, split at its newlines. The newline of a line is inserted when the next line begins.
function! s:put(id, pieces) abort
  let answer = get(s:answers, a:id, {})
  if empty(answer) || !bufloaded(answer.buffer)
    return
  endif
  let line = s:line(answer)
  if !line
    return s:stop(a:id)
  endif
  if bufnr('%') == answer.buffer
    " One undo removes a whole answer, unless the user has undone something meanwhile.
    silent! undojoin
  endif
  call setbufline(answer.buffer, line, getbufline(answer.buffer, line)[0] . a:pieces[0])
  if len(a:pieces) > 1
    call appendbufline(answer.buffer, line, a:pieces[1:])
  endif
  " Vim removes the mark with the old text of the line.
  call s:mark(answer, line + len(a:pieces) - 1)
endfunction

" A newline at the end of the answer adds no empty line.
function! s:text(id, text) abort
  let answer = get(s:answers, a:id, {})
  if empty(answer) || empty(a:text)
    return
  endif
  let answer.empty = 0
  if has_key(answer, 'gap')
    let answer.gap.text .= a:text
    return
  endif
  let text = answer.newline . a:text
  let answer.newline = text =~# "\n$" ? "\n" : ''
  call s:put(a:id, split(answer.newline ==# '' ? text : text[:-2], "\n", 1))
endfunction

function! s:ended(id, status) abort
  let answer = remove(s:answers, a:id)
  let g:hob_running = len(s:answers)
  if has_key(answer, 'gap')
    if !a:status
      call s:fill(answer)
    endif
  elseif bufloaded(answer.buffer)
    let line = s:line(answer)
    call s:unmark(answer)
    if answer.empty && line && getbufline(answer.buffer, line)[0] ==# ''
      call deletebufline(answer.buffer, line)
    endif
  endif
  if a:status && !answer.stopped
    call s:complain(get(split(answer.errors, "\n"), -1, ''))
  endif
endfunction

" Insert the whole answer at once, only if the text has not changed. A cursor that has not moved goes behind the answer.
function! s:fill(answer) abort
  let gap = a:answer.gap
  if empty(gap.text)
    return
  endif
  if !bufloaded(a:answer.buffer) || getbufvar(a:answer.buffer, 'changedtick') != gap.tick
    return s:complain('hob: the text has changed, so the answer was not inserted')
  endif
  let waits = bufnr('%') == a:answer.buffer && getpos('.') == gap.cursor
  let old = getbufline(a:answer.buffer, gap.line)[0]
  let lines = split(gap.text, "\n", 1)
  let lines[0] = strpart(old, 0, gap.col) . lines[0]
  let end = strlen(lines[-1])
  let lines[-1] .= strpart(old, gap.col)
  call setbufline(a:answer.buffer, gap.line, lines[0])
  call appendbufline(a:answer.buffer, gap.line, lines[1:])
  if waits
    call cursor(gap.line + len(lines) - 1, mode() ==# 'i' ? end + 1 : max([end, 1]))
  endif
endfunction

function! s:errors(id, text) abort
  let s:answers[a:id].errors .= a:text
endfunction

function! s:stop(id) abort
  let answer = s:answers[a:id]
  let answer.stopped = 1
  if has('nvim')
    call jobstop(answer.job)
  else
    call job_stop(answer.job, 'int')
  endif
endfunction

function! s:insert(range, first, last, prompt) abort
  let id = s:next
  let s:next += 1
  let input = a:range ? join(getline(a:first, a:last), "\n") . "\n" : ''
  let argv = s:argv(a:range ? [] : ['--no-stdin'], a:prompt)
  let answer = {'id': id, 'buffer': bufnr('%'), 'errors': '', 'newline': '', 'stopped': 0, 'empty': 1}
  if !executable(argv[0])
    return s:complain(argv[0] . ': no such program')
  endif
  call append(a:last, '')
  call s:mark(answer, a:last + 1)
  call s:start(answer, argv, input)
endfunction

function! s:infill(after, options) abort
  let [line, col] = [line('.'), col('.') - 1]
  if a:after
    let col += strlen(matchstr(strpart(getline(line), col), '^.'))
  endif
  let before = strlen(join(getline(1, line), "\n")) - strlen(getline(line)) + col
  let argv = s:argv(['infill', '--at', string(before)] + split(a:options), '')
  let answer = {'id': s:next, 'buffer': bufnr('%'), 'errors': '', 'newline': '', 'stopped': 0, 'empty': 1,
        \ 'gap': {'line': line, 'col': col, 'tick': b:changedtick, 'cursor': getpos('.'), 'text': ''}}
  let s:next += 1
  if !executable(argv[0])
    return s:complain(argv[0] . ': no such program')
  endif
  call s:start(answer, argv, join(getline(1, '$'), "\n") . "\n")
endfunction

function! s:start(answer, argv, input) abort
  let answer = a:answer
  let id = answer.id
  let s:answers[id] = answer
  let g:hob_running = len(s:answers)
  if has('nvim')
    let answer.job = jobstart(a:argv, {
          \ 'on_stdout': {job, data, event -> s:text(id, join(data, "\n"))},
          \ 'on_stderr': {job, data, event -> s:errors(id, join(data, "\n"))},
          \ 'on_exit': {job, status, event -> s:ended(id, status)}})
    silent! call chansend(answer.job, a:input)
    silent! call chanclose(answer.job, 'stdin')
  else
    let answer.job = job_start(a:argv, {'mode': 'raw',
          \ 'out_cb': {channel, text -> s:text(id, text)},
          \ 'err_cb': {channel, text -> s:errors(id, text)},
          \ 'close_cb': {channel -> s:closed(id)}})
    silent! call ch_sendraw(answer.job, a:input)
    silent! call ch_close_in(answer.job)
  endif
endfunction

" Vim closes the channel when all output has been read. The exit of the process may follow a moment later.
function! s:closed(id, ...) abort
  let info = job_info(s:answers[a:id].job)
  if info.status ==# 'run'
    call timer_start(10, {timer -> s:closed(a:id)})
  else
    call s:ended(a:id, info.exitval)
  endif
endfunction

command! -range -nargs=* Hob call s:filter(<line1>, <line2>, <q-args>)
command! -range -nargs=* HobInsert call s:insert(<range>, <line1>, <line2>, <q-args>)
command! -bang -nargs=* HobInfill call s:infill(<bang>0, <q-args>)
inoremap <silent> <Plug>(hob-infill) <Cmd>HobInfill<CR>
command! HobStop call map(keys(s:answers), 's:stop(v:val)')
