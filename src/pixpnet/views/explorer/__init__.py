"""The explorer: a page on this computer where a person asks a trained model, doubts its answers and mends it.

`serving.serve` opens it; `app.create_app` is the application, `security.Guard` what stands before it. Each tab has a
module here that answers its requests, and a module of the same name in `static/` that shows them.
"""
