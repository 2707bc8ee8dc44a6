" SPDX-License-Identifier: MIT
" hob in Vim 9 and Neovim: lines through a model, answers that stream into the text. Copy it into a plugin directory.
"
"   :[range]Hob [PROMPT]         replace the lines (default: this one) by the answer; on failure they stay
"   :[range]HobInsert [PROMPT]   stream the answer below; the lines of a range are asked about
"   :HobStop                     end what streams
"
" g:hob_command: a list, the program and its options (default: ['hob', '-q']). g:hob_running: how many answers stream.

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

" Where the last line of an answer is, whatever is edited around it: a mark that moves with the text.
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

" The pieces of a text between its newlines. A line's own newline is put when the next one begins.
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
    " One answer, one undo; not where something was undone meanwhile.
    silent! undojoin
  endif
  call setbufline(answer.buffer, line, getbufline(answer.buffer, line)[0] . a:pieces[0])
  if len(a:pieces) > 1
    call appendbufline(answer.buffer, line, a:pieces[1:])
    call s:mark(answer, line + len(a:pieces) - 1)
  endif
endfunction

" A final newline only ended the last line.
function! s:text(id, text) abort
  let answer = get(s:answers, a:id, {})
  if empty(answer) || empty(a:text)
    return
  endif
  let answer.empty = 0
  let text = answer.newline . a:text
  let answer.newline = text =~# "\n$" ? "\n" : ''
  call s:put(a:id, split(answer.newline ==# '' ? text : text[:-2], "\n", 1))
endfunction

function! s:ended(id, status) abort
  let answer = remove(s:answers, a:id)
  let g:hob_running = len(s:answers)
  if bufloaded(answer.buffer)
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
  let s:answers[id] = answer
  let g:hob_running = len(s:answers)
  if has('nvim')
    let answer.job = jobstart(argv, {
          \ 'on_stdout': {job, data, event -> s:text(id, join(data, "\n"))},
          \ 'on_stderr': {job, data, event -> s:errors(id, join(data, "\n"))},
          \ 'on_exit': {job, status, event -> s:ended(id, status)}})
    silent! call chansend(answer.job, input)
    silent! call chanclose(answer.job, 'stdin')
  else
    let answer.job = job_start(argv, {'mode': 'raw',
          \ 'out_cb': {channel, text -> s:text(id, text)},
          \ 'err_cb': {channel, text -> s:errors(id, text)},
          \ 'close_cb': {channel -> s:closed(id)}})
    silent! call ch_sendraw(answer.job, input)
    silent! call ch_close_in(answer.job)
  endif
endfunction

" Vim closes the channel when all has been read; that the process has ended may be told a moment later.
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
command! HobStop call map(keys(s:answers), 's:stop(v:val)')
