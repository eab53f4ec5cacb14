"""Read every kind of answer with the vendors' own Python clients, and print it as JSON; the argument is an address."""

import io
import json
import sys

import anthropic
import cohere
import ollama
import openai

URL = f"http://{sys.argv[1]}"
ASKED = [{"role": "user", "content": "Hello"}]
TOOL = {"name": "add", "description": "", "input_schema": {"type": "object", "properties": {}}}
found: dict[str, object] = {}

theirs = openai.OpenAI(base_url=f"{URL}/v1", api_key="k", max_retries=0)
parts: dict[str, str] = {"reasoning": "", "content": "", "arguments": ""}
usage = None
for chunk in theirs.chat.completions.create(model="tiny", messages=ASKED, stream=True):
    for choice in chunk.choices:
        parts["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
        parts["content"] += choice.delta.content or ""
        parts["arguments"] += "".join(call.function.arguments for call in choice.delta.tool_calls or ())
    usage = chunk.usage or usage
found["chat"] = [*parts.values(), usage.completion_tokens, usage.prompt_tokens]
whole = theirs.chat.completions.create(model="tiny", messages=ASKED)
found["chat whole"] = [whole.choices[0].message.content, whole.usage.completion_tokens]
stream = theirs.completions.create(model="tiny", prompt="Hello", stream=True)
found["completions"] = "".join(chunk.choices[0].text for chunk in stream)
texts, arguments, thoughts = "", "", ""
for event in theirs.responses.create(model="tiny", input="Hello", stream=True):
    texts += event.delta if event.type == "response.output_text.delta" else ""
    thoughts += event.delta if event.type == "response.reasoning_text.delta" else ""
    arguments += event.delta if event.type == "response.function_call_arguments.delta" else ""
    usage = event.response.usage if event.type == "response.completed" else usage
found["responses"] = [thoughts, texts, arguments, usage.output_tokens, usage.input_tokens]
found["responses whole"] = theirs.responses.create(model="tiny", input="Hello").output_text
sound = ("a.wav", io.BytesIO(b"RIFF"), "audio/wav")
found["transcriptions whole"] = theirs.audio.transcriptions.create(model="tiny", file=sound).text
events = theirs.audio.transcriptions.create(model="tiny", file=sound, stream=True)
found["transcriptions"] = "".join(event.delta for event in events if event.type == "transcript.text.delta")
made = theirs.embeddings.create(model="tiny", input="Hello", encoding_format="float")
found["embeddings"] = [made.data[0].embedding, made.usage.prompt_tokens]

theirs = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0)
with theirs.messages.stream(model="tiny", max_tokens=9, messages=ASKED, tools=[TOOL]) as stream:
    message = stream.get_final_message()
blocks = {block.type: block for block in message.content}
found["anthropic"] = [
    *(blocks["thinking"].thinking, blocks["text"].text, blocks["tool_use"].input),
    *(message.usage.output_tokens, message.usage.input_tokens),
    *(message.usage.cache_creation_input_tokens, message.usage.cache_read_input_tokens),
]
whole = theirs.messages.create(model="tiny", max_tokens=9, messages=ASKED)
found["anthropic whole"] = [block.type for block in whole.content]

theirs = ollama.Client(host=URL)
thoughts, texts, calls = "", "", 0
for part in theirs.chat(model="tiny", messages=ASKED, stream=True):
    thoughts += part.message.thinking or ""
    texts += part.message.content or ""
    calls += len(part.message.tool_calls or ())
found["ollama"] = [thoughts, texts, calls, part.eval_count, part.prompt_eval_count]
found["ollama whole"] = theirs.chat(model="tiny", messages=ASKED).message.content
lines = list(theirs.generate(model="tiny", prompt="Hello", stream=True))
found["ollama-generate"] = ["".join(row.response for row in lines), lines[-1].eval_count]
found["ollama-embed"] = list(theirs.embed(model="tiny", input="Hello").embeddings[0])

theirs = cohere.ClientV2(api_key="k", base_url=URL)
ranked = theirs.rerank(model="tiny", query="Hello", documents=["a"])
found["cohere-rerank"] = [ranked.results[0].index, ranked.results[0].relevance_score]
made = theirs.embed(model="tiny", texts=["Hello"], input_type="search_document", embedding_types=["float"])
found["cohere-embed"] = [made.embeddings.float_[0], made.meta.billed_units.input_tokens]
print(json.dumps(found))
