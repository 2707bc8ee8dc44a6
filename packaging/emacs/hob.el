;;; hob.el --- prompts and infill with a local language model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT
;; Package-Requires: ((emacs "27.1"))
;; Keywords: convenience, processes

;;; Commentary:

;; `hob-region' sends the region to hob(1), like `shell-command-on-region', and shows the answer; with a prefix argument
;; the answer replaces the region.  `hob-insert' streams an answer into the buffer.  `hob-infill' completes the text at
;; point.  `hob-stop' stops the answers of the buffer.

;;; Code:

(require 'subr-x)

(defgroup hob nil "A client for local language models." :group 'external)

(defcustom hob-command '("hob" "-q")
  "The program and its options."
  :type '(repeat string))

(defcustom hob-infill-options nil
  "More options for `hob-infill', such as \"--max-lines\" \"5\"."
  :type '(repeat string))

(defvar-local hob--processes nil "The processes that stream into this buffer.")

(defun hob--arguments (prompt &rest more)
  "The arguments for PROMPT, with MORE options."
  (append (cdr hob-command) more (unless (string-empty-p prompt) (list "--" prompt))))

(defun hob--fail (status text)
  "Signal an error for the exit STATUS of hob; TEXT is its standard error."
  (error "%s" (if (string-blank-p text) (format "hob: %s" status) (string-trim text))))

;;;###autoload
(defun hob-region (start end prompt &optional replace)
  "Send PROMPT and the text from START to END, and show the answer.
With a prefix argument, or non-nil REPLACE, the answer replaces the text.
If hob fails, the text stays."
  (interactive "r\nsAsk about the region: \nP")
  (let ((errors (make-temp-file "hob"))
        (coding-system-for-read 'utf-8)
        (coding-system-for-write 'utf-8)
        status answer)
    (unwind-protect
        (let ((text (buffer-substring-no-properties start end)))
          (with-temp-buffer
            (setq status (apply #'call-process-region text nil (car hob-command) nil (list t errors) nil
                                (hob--arguments prompt)))
            (setq answer (buffer-string)))
          (unless (equal status 0)
            (hob--fail status (with-temp-buffer (insert-file-contents errors) (buffer-string)))))
      (delete-file errors))
    (if (not replace)
        (with-output-to-temp-buffer "*hob*" (princ answer))
      (save-excursion
        (let ((newline (and (> end start) (eq (char-before end) ?\n))))
          (goto-char end)
          (insert (if newline answer (string-remove-suffix "\n" answer)))
          (delete-region start end))))))

(defun hob--ended (process marker errors)
  "Clean up after PROCESS: free its MARKER and its buffer of ERRORS."
  (let ((pipe (get-buffer-process errors)))
    (when pipe (accept-process-output pipe 0.5)))
  (let ((text (if (buffer-live-p errors) (with-current-buffer errors (buffer-string)) "")))
    (when (buffer-live-p (marker-buffer marker))
      (with-current-buffer (marker-buffer marker)
        (setq hob--processes (delq process hob--processes))))
    (set-marker marker nil)
    (kill-buffer errors)
    (unless (or (eq (process-exit-status process) 0) (process-get process 'hob-stopped))
      (message "%s" (if (string-blank-p text) "hob failed" (string-trim text))))))

(defun hob--start (arguments text marker take)
  "Run hob with ARGUMENTS on TEXT, which may be nil; return the process.
Call TAKE with each piece of its output, in the buffer of MARKER."
  (let* ((errors (generate-new-buffer " *hob errors*"))
         (process
          (make-process
           :name "hob" :connection-type 'pipe :coding 'utf-8-unix :noquery t
           :command (cons (car hob-command) arguments)
           :stderr (make-pipe-process :name "hob errors" :buffer errors :noquery t :sentinel #'ignore)
           :filter (lambda (_process piece)
                     (when (buffer-live-p (marker-buffer marker))
                       (with-current-buffer (marker-buffer marker) (funcall take piece))))
           :sentinel (lambda (process _event)
                       (unless (process-live-p process) (hob--ended process marker errors))))))
    (push process hob--processes)
    ;; If the process has ended already, its sentinel reports the reason.
    (ignore-errors
      (when text (process-send-string process text))
      (process-send-eof process))
    process))

;;;###autoload
(defun hob-insert (prompt &optional start end)
  "Stream the answer to PROMPT into the buffer at point.
If the region is active, or START and END are given, send that text too,
and insert the answer after it.  Return the process."
  (interactive (cons (read-string "Ask: ") (when (use-region-p) (list (region-beginning) (region-end)))))
  (let* ((text (and start (buffer-substring-no-properties start end)))
         (marker (copy-marker (or end (point)) t)))
    (hob--start (apply #'hob--arguments prompt (unless text '("--no-stdin"))) text marker
                (lambda (piece) (save-excursion (goto-char marker) (insert piece))))))

;;;###autoload
(defun hob-infill ()
  "Complete the text at point; point moves behind the new text.
The model must have fill-in-the-middle tokens, as many code models have.
Return the process."
  (interactive)
  (save-restriction
    (widen)
    (let ((before (encode-coding-string (buffer-substring-no-properties (point-min) (point)) 'utf-8-unix))
          (text (buffer-substring-no-properties (point-min) (point-max)))
          (marker (copy-marker (point) t)))
      (hob--start (append (hob--arguments "" "infill" "--at" (number-to-string (length before))) hob-infill-options)
                  text marker
                  (lambda (piece)
                    (if (= (point) marker)
                        (insert piece)
                      (save-excursion (goto-char marker) (insert piece))))))))

(defun hob-stop ()
  "Stop the answers that stream into this buffer."
  (interactive)
  (dolist (process hob--processes)
    (process-put process 'hob-stopped t)
    (when (process-live-p process) (interrupt-process process))))

(provide 'hob)
;;; hob.el ends here
